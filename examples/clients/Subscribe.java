// Subscribe with a content filter, in Java (com.hivemq:hivemq-mqtt-client).
//
//     java -cp hivemq-mqtt-client-shaded.jar Subscribe.java localhost 1883 "severity >= 3" 2

import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt5.Mqtt5BlockingClient;
import com.hivemq.client.mqtt.mqtt5.Mqtt5Client;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5SubAckException;
import java.nio.charset.StandardCharsets;

public class Subscribe {
    public static void main(String[] arguments) throws Exception {
        Mqtt5BlockingClient client = Mqtt5Client.builder()
                .serverHost(arguments[0])
                .serverPort(Integer.parseInt(arguments[1]))
                .buildBlocking();
        client.connect();
        try (Mqtt5BlockingClient.Mqtt5Publishes events = client.publishes(MqttGlobalPublishFilter.ALL)) {
            client.subscribeWith()
                    .topicFilter("traffic/#")
                    .qos(MqttQos.AT_LEAST_ONCE)
                    .userProperties().add("where", arguments[2]).applyUserProperties()
                    .send();
            System.err.println("subscribed");
            for (int left = Integer.parseInt(arguments[3]); left > 0; left--) {
                var event = events.receive();
                System.out.println(
                        event.getTopic() + " " + new String(event.getPayloadAsBytes(), StandardCharsets.UTF_8));
            }
        } catch (Mqtt5SubAckException refused) {
            var reason = refused.getMqttMessage().getReasonString();
            System.err.println("refused: " + (reason.isPresent() ? reason.get() : refused.getMessage()));
            System.exit(1);
        } finally {
            client.disconnect();
        }
    }
}
