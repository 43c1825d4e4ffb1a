"""A program's side of the network: connect, publish, subscribe, over MQTT 5.

`network` is what programs use, `blocking` the same without asyncio; `connection` is paho on an asyncio loop,
`refusals` turns a broker's no into an error that can be acted on. What a broker does with what it is sent is
not known here.
"""
