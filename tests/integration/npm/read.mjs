// node read.mjs BOOTSTRAP REGISTRY TOPIC...: every record of the topics as a line of JSON, decoded by the registry alone.
import { Kafka, logLevel } from "kafkajs";
import confluent from "@kafkajs/confluent-schema-registry";

const [bootstrap, host, ...topics] = process.argv.slice(2);
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const registry = new confluent.SchemaRegistry({ host });

const admin = kafka.admin();
await admin.connect();
let left = 0;
for (const topic of topics)
  for (const { high, low } of await admin.fetchTopicOffsets(topic)) left += Number(high) - Number(low);
await admin.disconnect();

const plain = (one) =>
  JSON.stringify(one, (_, value) => (typeof value === "bigint" ? value.toString() : value));
const consumer = kafka.consumer({ groupId: `kafkajs-${process.pid}` });
await consumer.connect();
await consumer.subscribe({ topics, fromBeginning: true });
await new Promise((resolve, reject) => {
  consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
  consumer.run({
    eachMessage: async ({ topic, message }) => {
      const framed = message.value[0] === 0;
      const headers = Object.fromEntries(
        Object.entries(message.headers).map(([name, value]) => [name, String(value)]),
      );
      const value = framed ? await registry.decode(message.value) : null;
      console.log(plain({ topic, key: message.key?.toString() ?? null, headers, value }));
      left -= 1;
      if (left === 0) resolve();
    },
  });
});
await consumer.disconnect();
