import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Assigns with Apache Kafka's own assignors. A line of input is words (see test_same_assignments.py):
 * `assignor type topic=count,... member/instance/topic,.../topic=partition.partition,... ...`; the answer is
 * `member/topic=partition.partition,... ...`, sorted, or `error text`.
 */
public class AssignorOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                System.out.println(assign(line.split(" ")));
            } catch (PartitionAssignorException error) {
                System.out.println("error " + error.getMessage());
            }
        }
    }

    private static String assign(String[] words) {
        PartitionAssignor assignor = words[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String topic : list(words[2])) {
            String[] parts = topic.split("=");
            counts.put(uuid(parts[0]), Integer.parseInt(parts[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (int i = 3; i < words.length; i++) {
            String[] parts = words[i].split("/", -1);
            Set<Uuid> subscribed = new LinkedHashSet<>();
            for (String topic : list(parts[2])) {
                subscribed.add(uuid(topic));
            }
            Map<Uuid, Set<Integer>> assigned = new LinkedHashMap<>();
            for (String topic : list(parts[3])) {
                String[] pair = topic.split("=");
                Set<Integer> partitions = assigned.computeIfAbsent(uuid(pair[0]), __ -> new TreeSet<>());
                for (String partition : pair[1].split("\\.")) {
                    partitions.add(Integer.parseInt(partition));
                    inverted.computeIfAbsent(uuid(pair[0]), __ -> new HashMap<>())
                        .put(Integer.parseInt(partition), parts[0]);
                }
            }
            Optional<String> instance = parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]);
            members.put(parts[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, subscribed, new Assignment(assigned)));
        }
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
        return text(assignor.assign(
            new GroupSpecImpl(members, SubscriptionType.valueOf(words[1]), inverted), topics));
    }

    private static String[] list(String text) {
        return text.isEmpty() || text.equals("-") ? new String[0] : text.split(",");
    }

    private static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    private static String text(GroupAssignment assignment) {
        StringBuilder all = new StringBuilder();
        for (Map.Entry<String, MemberAssignment> member : new TreeMap<>(assignment.members()).entrySet()) {
            Map<String, String> topics = new TreeMap<>();
            member.getValue().partitions().forEach((id, partitions) -> {
                StringBuilder numbers = new StringBuilder();
                for (int partition : new TreeSet<>(partitions)) {
                    numbers.append(numbers.length() == 0 ? "" : ".").append(partition);
                }
                String hex = String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
                topics.put(hex, numbers.toString());
            });
            all.append(all.length() == 0 ? "" : " ").append(member.getKey()).append('/');
            StringBuilder listed = new StringBuilder();
            topics.forEach((id, numbers) ->
                listed.append(listed.length() == 0 ? "" : ",").append(id).append('=').append(numbers));
            all.append(listed);
        }
        return all.toString();
    }
}
