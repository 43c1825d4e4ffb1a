/* Subscribe with a content filter, in C (apt install libmosquitto-dev).
 *
 *     cc subscribe.c -lmosquitto -o subscribe && ./subscribe localhost 1883 "severity >= 3" 2
 */

#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <stdio.h>
#include <stdlib.h>

static const char *where;
static int left, failed;

static void on_connect(struct mosquitto *client, void *data, int reason, int flags,
                       const mosquitto_property *properties)
{
    mosquitto_property *wanted = NULL;
    (void)data, (void)flags, (void)properties;
    if (reason != 0) {
        fprintf(stderr, "not connected: %s\n", mosquitto_reason_string(reason));
        exit(2);
    }
    mosquitto_property_add_string_pair(&wanted, MQTT_PROP_USER_PROPERTY, "where", where);
    mosquitto_subscribe_v5(client, NULL, "traffic/#", 1, 0, wanted);
    mosquitto_property_free_all(&wanted);
}

static void on_subscribe(struct mosquitto *client, void *data, int id, int count, const int *granted,
                         const mosquitto_property *properties)
{
    char *reason = NULL;
    (void)data, (void)id, (void)count;
    if (granted[0] < 0x80) {
        fprintf(stderr, "subscribed\n");
        return;
    }
    mosquitto_property_read_string(properties, MQTT_PROP_REASON_STRING, &reason, false);
    fprintf(stderr, "refused: %s\n", reason ? reason : mosquitto_reason_string(granted[0]));
    free(reason);
    failed = 1;
    mosquitto_disconnect(client);
}

static void on_message(struct mosquitto *client, void *data, const struct mosquitto_message *event,
                       const mosquitto_property *properties)
{
    (void)data, (void)properties;
    printf("%s %.*s\n", event->topic, event->payloadlen, (const char *)event->payload);
    fflush(stdout);
    if (--left == 0)
        mosquitto_disconnect(client);
}

int main(int count, char **arguments)
{
    struct mosquitto *client;
    if (count != 5)
        return 2;
    where = arguments[3];
    left = atoi(arguments[4]);
    mosquitto_lib_init();
    client = mosquitto_new(NULL, true, NULL);
    mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
    mosquitto_connect_v5_callback_set(client, on_connect);
    mosquitto_subscribe_v5_callback_set(client, on_subscribe);
    mosquitto_message_v5_callback_set(client, on_message);
    if (mosquitto_connect(client, arguments[1], atoi(arguments[2]), 60) != MOSQ_ERR_SUCCESS) {
        perror("not connected");
        return 2;
    }
    mosquitto_loop_forever(client, -1, 1);
    mosquitto_destroy(client);
    mosquitto_lib_cleanup();
    return failed;
}
