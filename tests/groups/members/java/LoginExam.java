// Java's clients through one login after another, for tests/security/matrix (see exam_program.py there): each line on
// the standard input is a login, each line on the standard output is what was read with it, or why it failed.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class LoginExam {
    private static final int PATIENCE_MS = 120_000;
    private static final String MODULES = "org.apache.kafka.common.security.";

    private final Map<String, String> login;
    private final String topic;

    private LoginExam(Map<String, String> login) {
        this.login = login;
        topic = login.get("topic");
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, String> login = Arrays.stream(line.split("\t"))
                .map(field -> field.split("=", 2))
                .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
            try {
                System.out.println("read=" + String.join(",", new LoginExam(login).sit()));
            } catch (Exception failure) {
                failure.printStackTrace();
                System.out.println("failed=" + failure.toString().replace("\n", " "));
            }
        }
    }

    private List<String> sit() throws Exception {
        try (Admin admin = Admin.create(settings(Map.of()))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
        List<String> inTransaction = values("in_transaction");
        List<String> plainValues = values("plain_values");
        try (KafkaProducer<String, String> producer = producer(Map.of("transactional.id", topic))) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, inTransaction);
            producer.commitTransaction();
        }
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            send(producer, plainValues);
        }
        return read(inTransaction.size() + plainValues.size());
    }

    private List<String> values(String name) {
        return List.of(login.get(name).split(","));
    }

    private KafkaProducer<String, String> producer(Map<String, Object> more) {
        return new KafkaProducer<>(settings(more), new StringSerializer(), new StringSerializer());
    }

    private void send(KafkaProducer<String, String> producer, List<String> values) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String value : values) {
            sent.add(producer.send(new ProducerRecord<>(topic, value)));
        }
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
    }

    private List<String> read(int count) {
        Map<String, Object> reader = Map.of("group.id", topic, "auto.offset.reset", "earliest",
            "isolation.level", "read_committed", "enable.auto.commit", "false");
        List<String> found = new ArrayList<>();
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(settings(reader), new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (found.size() < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    found.add(record.value());
                }
            }
            consumer.commitSync();
        }
        return found;
    }

    private Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", login.get("bootstrap"));
        settings.put("security.protocol", login.get("protocol"));
        if (login.get("protocol").endsWith("SSL")) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", login.get("trust_pem"));
        }
        String mechanism = login.get("mechanism");
        if (mechanism.isEmpty()) {
            return settings;
        }
        settings.put("sasl.mechanism", mechanism);
        settings.put("sasl.jaas.config", jaasConfig(mechanism));
        if (mechanism.equals("OAUTHBEARER")) {
            settings.put("sasl.login.callback.handler.class", GivenToken.class.getName());
        }
        return settings;
    }

    private String jaasConfig(String mechanism) {
        if (mechanism.equals("OAUTHBEARER")) {
            return MODULES + "oauthbearer.OAuthBearerLoginModule required token=\"" + login.get("password")
                + "\" end=\"" + login.get("token_end_ms") + "\";";
        }
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        String byToken = login.get("is_by_token").equals("true") ? " tokenauth=\"true\"" : "";
        return MODULES + module + " required username=\"" + login.get("user") + "\" password=\""
            + login.get("password") + "\"" + byToken + ";";
    }

    /** Logs in by the token of OAUTHBEARER that stands in the login context. */
    public static class GivenToken implements AuthenticateCallbackHandler {
        private Map<String, ?> options = Map.of();

        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            options = entries.get(0).getOptions();
        }

        @Override
        public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
            for (Callback callback : callbacks) {
                if (!(callback instanceof OAuthBearerTokenCallback)) {
                    throw new UnsupportedCallbackException(callback);
                }
                ((OAuthBearerTokenCallback) callback).token(
                    new Token((String) options.get("token"), Long.parseLong((String) options.get("end"))));
            }
        }

        @Override
        public void close() {
        }
    }

    private record Token(String value, long lifetimeMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public String principalName() {
            return "alice"; // of the client's own logs; the broker looks into the token
        }

        @Override
        public Long startTimeMs() {
            return null;
        }
    }
}
