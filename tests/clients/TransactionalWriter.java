import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Writes transactions of two records, one in each partition of a topic, and commits an offset of a group with each. Every
 * third transaction is aborted; every fifth has no record. Arguments: bootstrap servers, topic, number of transactions.
 * The topic's name is also the transactional id and the group.
 */
public class TransactionalWriter {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", topic);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            for (int number = 0; number < Integer.parseInt(arguments[2]); number++) {
                producer.beginTransaction();
                if (number % 5 != 0) {
                    for (int partition = 0; partition < 2; partition++) {
                        producer.send(new ProducerRecord<>(topic, partition, null, Integer.toString(number)));
                    }
                    producer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(number)),
                        new ConsumerGroupMetadata(topic));
                }
                if (number % 3 == 0) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        System.out.println("done");
    }
}
