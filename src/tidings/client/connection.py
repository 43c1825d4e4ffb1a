"""One paho client on the running loop: bytes to and from a broker, and what they mean as futures.

paho keeps what is under way with QoS 1 and 2, and sends it again after a reconnect; sockets are watched by
asyncio, and only opening one, which blocks, happens in a thread. aiomqtt does the same but drops the
properties of SUBACK and the reason codes of PUBACK, which are what a refusal is made of. Where to connect and
when to do so again is decided in `network`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket as sockets
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paho.mqtt.client import Client, MQTTMessage, WebsocketConnectionError
from paho.mqtt.enums import CallbackAPIVersion, MessageState, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from tidings.client import properties as convert
from tidings.client import refusals
from tidings.client.urls import Address
from tidings.errors import InputError, NetworkError, TidingsError
from tidings.mqtt.codec import Decoder, encode, variable
from tidings.mqtt.packets import (
    NO_PROPERTIES,
    AnyPacket,
    Asked,
    Properties,
    Publish,
    Pubrec,
    Subscribe,
    Version,
    Will,
)
from tidings.mqtt.reasons import FAILURE

if TYPE_CHECKING:
    from paho.mqtt.client import ConnectFlags, DisconnectFlags, SocketLike
    from paho.mqtt.properties import Properties as PahoProperties

LOG = logging.getLogger("tidings.client")

LOOK_EVERY_S = 1.0
"""How often paho sees whether a ping is due."""

UNSENT_MAX = 256
"""Publications with QoS 0 that wait for the socket; then `publish` waits."""

PACKET_BYTES_MAX = 268_435_460
"""The largest packet of MQTT: what a broker takes that says nothing about it."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Why a connection ended."""

    reason: str
    code: int = 0
    """The reason code of a DISCONNECT, if the broker sent one."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a broker says when it takes a client."""

    session_present: bool
    properties: Properties


@dataclass(frozen=True, slots=True)
class Answer:
    """Reason codes and properties of a SUBACK or UNSUBACK."""

    reasons: tuple[int, ...]
    properties: Properties


class _Paho(Client):
    """paho, put right in two things about QoS 2.

    With acknowledgements by hand it never answers a PUBREL that comes again because its PUBCOMP was lost, and
    the broker would wait for ever; so QoS 2 is acknowledged when it is complete. And it does not look at the
    reason code of a PUBREC: what the broker has refused would be reported as done.
    """

    def _handle_pubrec(self) -> MQTTErrorCode:
        body = bytes(self._in_packet["packet"])
        decoder = Decoder(packet_bytes_max=len(body) + 5, version=Version.V5, client=True)
        decoder.feed(b"\x50" + variable(len(body)) + body)
        packet = decoder.next()
        assert isinstance(packet, Pubrec), "paho has read the whole of one"
        if packet.reason < FAILURE:
            return super()._handle_pubrec()
        with self._out_message_mutex:
            if packet.packet_id not in self._out_messages:
                return MQTTErrorCode.MQTT_ERR_SUCCESS
            # It ends here: no PUBREL follows [MQTT-4.3.3-7].
            properties = convert.to_paho(packet.properties, convert.PUBREC) or convert.none(convert.PUBREC)
            code = ReasonCode(convert.PUBREC, identifier=packet.reason)
            return self._do_on_publish(packet.packet_id, code, properties)

    def _handle_pubrel(self) -> MQTTErrorCode:
        self.manual_ack_set(False)
        try:
            return super()._handle_pubrel()
        finally:
            self.manual_ack_set(True)

    def forget(self, mid: int) -> bool:
        """Drop a publication that would be sent again; False if the broker has it, and PUBREL is due."""
        with self._out_message_mutex:
            message = self._out_messages.get(mid)
            if message is None or message.state == MessageState.MQTT_MS_RESEND_PUBREL:
                return False
            del self._out_messages[mid]
            return True


class Connection:
    """A client's connection, opened again and again."""

    def __init__(
        self,
        *,
        client_id: str,
        transport_of: Address,
        context: ssl.SSLContext | None,
        keep_alive_s: int,
        answer_within_s: float,
        in_flight_max: int,
        will: Will | None,
        on_delivery: Callable[[Publish], None],
        on_lost: Callable[[Lost], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._keep_alive_s = keep_alive_s
        self._answer_within_s = answer_within_s
        self._on_delivery = on_delivery
        self._on_lost = on_lost
        self._connack: asyncio.Future[Opened] | None = None
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._published: dict[int, tuple[str, int, asyncio.Future[None]]] = {}
        """By packet identifier: topic, bytes of the packet, and what is done when it is acknowledged."""
        self._packet_bytes_max = PACKET_BYTES_MAX
        """What the broker of the present connection takes."""
        self._unsent: set[int] = set()
        self._room = asyncio.Event()
        self._room.set()
        self._look: asyncio.TimerHandle | None = None
        self._where = ""
        self.open = False
        """Whether the broker has taken us, and the connection holds."""

        self._paho = paho = _Paho(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            transport="websockets" if transport_of.websocket else "tcp",
            reconnect_on_failure=False,
            manual_ack=True,
        )
        paho.connect_timeout = answer_within_s
        paho.max_inflight_messages_set(in_flight_max)
        if transport_of.secure:
            paho.tls_set_context(context or ssl.create_default_context())
        if will is not None:
            paho.will_set(
                will.topic,
                will.payload,
                will.qos,
                will.retain,
                convert.to_paho(will.properties, convert.WILL),
            )
        paho.on_connect = self._connected
        paho.on_disconnect = self._disconnected
        paho.on_subscribe = self._subscribed
        paho.on_unsubscribe = self._subscribed
        paho.on_publish = self._acknowledged
        paho.on_message = self._received
        paho.on_socket_close = self._unwatch
        paho.on_socket_register_write = self._watch_writing
        paho.on_socket_unregister_write = self._unwatch_writing

    async def connect(self, address: Address, *, clean_start: bool, properties: Properties) -> Opened:
        """Open a connection, and be taken. NetworkError or AccessError if that fails."""
        paho = self._paho
        self._where = str(address)
        paho.username_pw_set(address.user, address.password)
        if address.websocket:
            # paho pretends to be a web page of the broker, which a listener with `mqtt_origins` refuses.
            paho.ws_set_options(address.path, _without_origin)
        paho.connect_async(
            address.host,
            address.port,
            self._keep_alive_s,
            clean_start=clean_start,
            properties=convert.to_paho(properties, convert.CONNECT),
        )
        connack: asyncio.Future[Opened] = self._loop.create_future()
        self._connack = connack
        try:
            # A thread cannot be stopped; paho's own timeout ends it.
            await self._loop.run_in_executor(None, paho.reconnect)
            self._watch()
            async with asyncio.timeout(self._answer_within_s):
                return await connack
        except TimeoutError:
            self.drop()
            raise NetworkError(f"{address} does not answer within {self._answer_within_s:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise NetworkError(
                f"{address} shows a certificate that is not trusted: {error.verify_message}; give its "
                "authority as `authority=`, or --authority on the command line"
            ) from None
        except (OSError, ValueError, WebsocketConnectionError) as error:
            said = getattr(error, "strerror", None) or str(error)
            raise NetworkError(f"{address} is not reached: {said}; is a broker running there?") from None

    def publish(
        self, topic: str, payload: bytes, qos: int, retain: bool, properties: Properties
    ) -> asyncio.Future[None] | None:
        """Send a publication. The future is done when it is acknowledged; None for QoS 0, which is not.

        InputError if the broker takes no packet of its size.
        """
        packet = Publish(topic, payload, qos, retain, packet_id=1 if qos else 0, properties=properties)
        packet_bytes = self._check_size(packet, f"what was published to {topic!r}")
        try:
            sent = self._paho.publish(
                topic, payload, qos, retain, convert.to_paho(properties, convert.PUBLISH)
            )
        except ValueError as error:
            raise InputError(f"{topic!r} cannot be published to: {error}") from None
        if qos == 0:
            self._unsent.add(sent.mid)
            if len(self._unsent) >= UNSENT_MAX:
                self._room.clear()
            return None
        acknowledged: asyncio.Future[None] = self._loop.create_future()
        self._published[sent.mid] = (topic, packet_bytes, acknowledged)
        return acknowledged

    async def written(self) -> None:
        """Done when the socket has taken enough of what was published with QoS 0."""
        await self._room.wait()

    def subscribe(self, asked: Asked, properties: Properties) -> asyncio.Future[Answer]:
        """Ask for a subscription; the future has the broker's answer, refusals included."""
        self._check_size(
            Subscribe(1, (asked,), properties), f"the subscription to {asked.topic_filter!r} with its filters"
        )
        options = SubscribeOptions(
            asked.qos, asked.no_local, asked.retain_as_published, asked.retain_handling
        )
        try:
            code, mid = self._paho.subscribe(
                asked.topic_filter,
                options=options,
                properties=convert.to_paho(properties, convert.SUBSCRIBE),
            )
        except ValueError as error:
            raise InputError(f"{asked.topic_filter!r} cannot be subscribed to: {error}") from None
        return self._answer(code, mid)

    def unsubscribe(self, topic_filter: str) -> asyncio.Future[Answer]:
        """Ask for the end of a subscription."""
        return self._answer(*self._paho.unsubscribe(topic_filter))

    def acknowledge(self, packet_id: int) -> None:
        """Tell the broker that a delivery with QoS 1 has arrived where it should."""
        if self.open:
            self._paho.ack(packet_id, 1)

    async def close(self) -> None:
        """Say goodbye, so that no will is published."""
        if self.open:
            self.open = False
            self._paho.disconnect()
            try:
                async with asyncio.timeout(self._answer_within_s):
                    while self._paho.socket() is not None and self._paho.want_write():
                        self._paho.loop_write()
                        await asyncio.sleep(0)
            except TimeoutError:
                LOG.warning("%s took no goodbye within %g s", self._where, self._answer_within_s)
        self.drop()
        gone = NetworkError("the connection was closed before the broker had answered")
        for _, _, future in self._published.values():
            _fail(future, gone)
        self._published.clear()

    def drop(self) -> None:
        """End the connection at once."""
        self.open = False
        socket = self._paho.socket()
        if socket is not None:
            self._unwatch(self._paho, None, socket)
            socket.close()

    # What paho tells.

    def _connected(
        self,
        _client: Client,
        _data: Any,
        flags: ConnectFlags,
        code: ReasonCode,
        properties: PahoProperties | None,
    ) -> None:
        said = convert.from_paho(properties)
        if self._connack is None or self._connack.done():
            return
        if code.value >= FAILURE:
            self._connack.set_exception(refusals.connection(self._where, code.value, said.reason_string))
        else:
            self.open = True
            self._packet_bytes_max = said.maximum_packet_bytes or PACKET_BYTES_MAX
            self._drop_too_large()
            self._connack.set_result(Opened(flags.session_present, said))

    def _drop_too_large(self) -> None:
        """Before paho sends again what was under way: this connection may take less than the last."""
        for mid, (topic, packet_bytes, acknowledged) in list(self._published.items()):
            if packet_bytes > self._packet_bytes_max and self._paho.forget(mid):
                del self._published[mid]
                _fail(acknowledged, self._too_large(f"what was published to {topic!r}", packet_bytes))

    def _check_size(self, packet: AnyPacket, what: str) -> int:
        packet_bytes = len(encode(packet, Version.V5))
        if packet_bytes > self._packet_bytes_max:
            raise self._too_large(what, packet_bytes)
        return packet_bytes

    def _too_large(self, what: str, packet_bytes: int) -> InputError:
        return InputError(
            f"{what} is a packet of {packet_bytes:,} bytes, and {self._where} takes at most "
            f"{self._packet_bytes_max:,}; send less at once, or raise the broker's Maximum Packet Size "
            "(mqtt_packet_bytes_max)"
        )

    def _disconnected(
        self,
        _client: Client,
        _data: Any,
        flags: DisconnectFlags,
        code: ReasonCode,
        properties: PahoProperties | None,
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            said = convert.from_paho(properties).reason_string
            why = f"{said} ({refusals.reason_text(code.value)})" if said else refusals.reason_text(code.value)
            self._gone(Lost(f"{self._where} ended the connection: {why}", code.value))
        else:
            self._gone(Lost(f"the connection to {self._where} was lost"))

    def _gone(self, lost: Lost) -> None:
        was_open, self.open = self.open, False
        if self._look is not None:
            self._look.cancel()
        if self._connack is not None:
            _fail(
                self._connack,
                NetworkError(f"{self._where} closed the connection without an answer; does it speak MQTT 5?"),
            )
        # paho sends again what has QoS 1 or 2; what was asked for is asked again by those who want it.
        for answer in self._asked.values():
            _fail(answer, NetworkError(lost.reason))
        self._asked.clear()
        self._unsent.clear()
        self._room.set()
        if was_open:
            self._on_lost(lost)

    def _subscribed(
        self,
        _client: Client,
        _data: Any,
        mid: int,
        codes: list[ReasonCode],
        properties: PahoProperties | None,
    ) -> None:
        answer = self._asked.pop(mid, None)
        if answer is not None and not answer.done():
            answer.set_result(Answer(tuple(code.value for code in codes), convert.from_paho(properties)))

    def _acknowledged(
        self, _client: Client, _data: Any, mid: int, code: ReasonCode, properties: PahoProperties | None
    ) -> None:
        if mid in self._unsent:
            self._unsent.remove(mid)
            if len(self._unsent) < UNSENT_MAX // 2:
                self._room.set()
            return
        topic, _, acknowledged = self._published.pop(mid, ("", 0, None))
        if acknowledged is None or acknowledged.done():
            return
        if code.value >= FAILURE:
            said = convert.from_paho(properties).reason_string
            acknowledged.set_exception(refusals.publication(topic, code.value, said))
        else:
            acknowledged.set_result(None)

    def _received(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        self._on_delivery(
            Publish(
                message.topic,
                bytes(message.payload),
                message.qos,
                message.retain,
                message.dup,
                message.mid if message.qos else 0,
                convert.from_paho(message.properties) if message.properties else NO_PROPERTIES,
            )
        )

    def _answer(self, code: MQTTErrorCode, mid: int | None) -> asyncio.Future[Answer]:
        answer: asyncio.Future[Answer] = self._loop.create_future()
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS or mid is None:
            answer.set_exception(NetworkError(f"there is no connection to {self._where}"))
        else:
            self._asked[mid] = answer
        return answer

    # The socket.

    def _watch(self) -> None:
        socket = self._paho.socket()
        if socket is None:
            return
        # Small packets must not wait for each other's acknowledgements. paho may have wrapped the socket.
        with sockets.socket(fileno=os.dup(socket.fileno())) as same:
            same.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
        self._loop.add_reader(socket.fileno(), self._read)
        if self._paho.want_write():
            self._loop.add_writer(socket.fileno(), self._write)
        self._look = self._loop.call_later(LOOK_EVERY_S, self._misc)

    def _read(self) -> None:
        try:
            self._paho.loop_read()
            # TLS and WebSocket may hold bytes that no selector sees.
            while (pending := getattr(self._paho.socket(), "pending", None)) is not None and pending() > 0:
                self._paho.loop_read()
        except Exception as error:  # noqa: BLE001 - whatever bytes did to paho, they cost this connection alone
            self.drop()
            self._gone(Lost(f"{self._where} sent what is not MQTT 5: {error}"))

    def _write(self) -> None:
        try:
            self._paho.loop_write()
        except OSError as error:
            self.drop()
            self._gone(Lost(f"the connection to {self._where} was lost: {error}"))

    def _misc(self) -> None:
        self._look = self._loop.call_later(LOOK_EVERY_S, self._misc)
        self._paho.loop_misc()

    def _watch_writing(self, _client: Client, _data: Any, socket: SocketLike) -> None:
        # In the thread that opens a connection it cannot be done, and `_watch` does it after.
        if threading.get_ident() == self._thread:
            self._loop.add_writer(socket.fileno(), self._write)

    def _unwatch_writing(self, _client: Client, _data: Any, socket: SocketLike) -> None:
        if socket.fileno() >= 0:
            self._loop.remove_writer(socket.fileno())

    def _unwatch(self, _client: Client, _data: Any, socket: SocketLike) -> None:
        if socket.fileno() >= 0:
            self._loop.remove_reader(socket.fileno())
            self._loop.remove_writer(socket.fileno())
        if self._look is not None:
            self._look.cancel()


def _fail(future: asyncio.Future[Any], error: TidingsError) -> None:
    if not future.done():
        future.set_exception(error)
        # Whoever gave up waiting must not hear of it again from the loop.
        future.exception()


def _without_origin(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "Origin"}
