import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.Metric;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.NumberDataPoint;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ResourceMetrics;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ScopeMetrics;

/**
 * A metrics plugin of Apache Kafka's broker that takes the telemetry of clients (KIP-714). It appends a line for each
 * data point to the file `telemetry.receiver.file`, fields between tabs: client id, instance id, whether the client
 * ends, attributes of the resource, name, kind, attributes, value. Attributes are `key=value`, with commas between.
 */
public class TelemetryReceiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private Path file;

    @Override
    public void configure(Map<String, ?> configs) {
        file = Path.of((String) configs.get("telemetry.receiver.file"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public synchronized void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        String client = context.clientId() + "\t" + payload.clientInstanceId() + "\t" + payload.isTerminating();
        StringBuilder lines = new StringBuilder();
        try {
            for (ResourceMetrics of : MetricsData.parseFrom(payload.data()).getResourceMetricsList()) {
                String resource = joined(of.getResource().getAttributesList());
                for (ScopeMetrics scope : of.getScopeMetricsList()) {
                    for (Metric metric : scope.getMetricsList()) {
                        append(lines, client + "\t" + resource, metric);
                    }
                }
            }
            byte[] text = lines.toString().getBytes(StandardCharsets.UTF_8);
            Files.write(file, text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            // The broker answers INVALID_RECORD, and counts the error.
            throw new IllegalArgumentException(error);
        }
    }

    private static void append(StringBuilder lines, String client, Metric metric) {
        String kind = "gauge";
        List<NumberDataPoint> points = metric.getGauge().getDataPointsList();
        if (metric.hasSum()) {
            kind = metric.getSum().getAggregationTemporality() + (metric.getSum().getIsMonotonic() ? " monotonic" : "");
            points = metric.getSum().getDataPointsList();
        }
        for (NumberDataPoint point : points) {
            double value = point.hasAsInt() ? point.getAsInt() : point.getAsDouble();
            String attributes = joined(point.getAttributesList());
            lines.append(String.join("\t", client, metric.getName(), kind, attributes, Double.toString(value)) + "\n");
        }
    }

    private static String joined(List<KeyValue> attributes) {
        return attributes.stream()
            .map(each -> each.getKey() + "=" + each.getValue().getStringValue())
            .collect(Collectors.joining(","));
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
    }

    @Override
    public void metricChange(KafkaMetric metric) {
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
    }

    @Override
    public void close() {
    }
}
