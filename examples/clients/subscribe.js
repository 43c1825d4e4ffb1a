// Subscribe with a content filter, in JavaScript (npm install mqtt).
//
//     node subscribe.js mqtt://localhost:1883 "severity >= 3" 2

const mqtt = require("mqtt");

const [url, where, count] = process.argv.slice(2);
let left = Number(count);

const client = mqtt.connect(url, { protocolVersion: 5 });

client.on("connect", () => {
  const options = { qos: 1, properties: { userProperties: { where } } };
  client.subscribe("traffic/#", options, (error, granted, packet) => {
    if (error) {
      console.error(`refused: ${packet?.properties?.reasonString ?? error.message}`);
      process.exitCode = 1;
      client.end();
      return;
    }
    console.error("subscribed");
  });
});

client.on("message", (topic, payload) => {
  console.log(topic, payload.toString());
  left -= 1;
  if (left === 0) client.end();
});
