import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.ZooKeeper;

/** Reads znodes as fast as Java's client can: `StateReader HOSTS PATHS async|multi`; prints znodes per second. */
public class StateReader {
    public static void main(String[] arguments) throws Exception {
        List<String> paths = Files.readAllLines(Path.of(arguments[1]));
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(arguments[0], 20000, event -> connected.countDown());
        connected.await();
        long began = System.nanoTime();
        long bytes = arguments[2].equals("multi") ? multi(client, paths) : async(client, paths);
        double seconds = (System.nanoTime() - began) / 1e9;
        client.close();
        System.out.println(bytes + " bytes, per second: " + paths.size() / seconds);
    }

    private static long async(ZooKeeper client, List<String> paths) throws Exception {
        Semaphore window = new Semaphore(1000);
        long[] bytes = {0};
        for (String path : paths) {
            window.acquire();
            client.getData(path, false, (code, name, context, data, stat) -> {
                bytes[0] += data == null ? 0 : data.length;
                window.release();
            }, null);
        }
        window.acquire(1000);
        return bytes[0];
    }

    private static long multi(ZooKeeper client, List<String> paths) throws Exception {
        Semaphore window = new Semaphore(3);
        long[] bytes = {0};
        for (int start = 0; start < paths.size(); start += 1000) {
            List<Op> reads = new ArrayList<>();
            for (String path : paths.subList(start, Math.min(start + 1000, paths.size()))) {
                reads.add(Op.getData(path));
            }
            window.acquire();
            client.multi(reads, (code, name, context, results) -> {
                for (OpResult result : results) {
                    bytes[0] += ((OpResult.GetDataResult) result).getData().length;
                }
                window.release();
            }, null);
        }
        window.acquire(3);
        return bytes[0];
    }
}
