import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.Utils;

/**
 * Kafka's own consumer assignors and its consumer protocol. A line of input (see test_barnabas_group_assignors.py):
 * `assign assignor topic:racks,racks;... member/instance/subscription ...`, where racks are joined by `+`, `-` stands
 * for none, and subscriptions are the bytes of JoinGroup in hex. The answer: `member/subscription/assignment ...`, the
 * subscription written again, the assignment as in SyncGroup. Or `user-data assignor generation assignment`, answered
 * with the user data of the next subscription.
 */
public class ConsumerAssignorOracle {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            System.out.println(words[0].equals("assign") ? assign(words) : userData(words));
        }
    }

    private static ConsumerPartitionAssignor named(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static String userData(String[] words) {
        ConsumerPartitionAssignor assignor = named(words[1]);
        Assignment assignment = ConsumerProtocol.deserializeAssignment(ByteBuffer.wrap(HEX.parseHex(words[3])));
        assignor.onAssignment(
            assignment, new ConsumerGroupMetadata("g", Integer.parseInt(words[2]), "m", Optional.empty()));
        return HEX.formatHex(Utils.toArray(assignor.subscriptionUserData(Set.of())));
    }

    private static String assign(String[] words) {
        Map<String, Node> nodes = new LinkedHashMap<>();
        nodes.put("-", new Node(0, "localhost", 9092));
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : words[2].split(";")) {
            String[] parts = topic.split(":");
            int index = 0;
            for (String racks : parts[1].split(",")) {
                List<Node> replicas = new ArrayList<>();
                for (String rack : racks.split("\\+")) {
                    replicas.add(nodes.computeIfAbsent(rack, name -> new Node(nodes.size(), "localhost", 9092, name)));
                }
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(parts[0], index++, array[0], array, array));
            }
        }
        Cluster cluster = new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
        Map<String, Subscription> members = new TreeMap<>();
        Map<String, String> written = new TreeMap<>();
        for (int i = 3; i < words.length; i++) {
            String[] parts = words[i].split("/");
            Subscription subscription =
                ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(HEX.parseHex(parts[2])));
            written.put(
                parts[0], HEX.formatHex(Utils.toArray(ConsumerProtocol.serializeSubscription(subscription))));
            subscription.setGroupInstanceId(parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]));
            members.put(parts[0], subscription);
        }
        Map<String, Assignment> assignments =
            named(words[1]).assign(cluster, new GroupSubscription(members)).groupAssignment();
        List<String> answer = new ArrayList<>();
        for (String member : members.keySet()) {
            byte[] assignment = Utils.toArray(ConsumerProtocol.serializeAssignment(assignments.get(member)));
            answer.add(member + "/" + written.get(member) + "/" + HEX.formatHex(assignment));
        }
        return String.join(" ", answer);
    }
}
