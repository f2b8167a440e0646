import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.paimon.compression.CompressOptions;
import org.apache.paimon.io.cache.CacheManager;
import org.apache.paimon.lookup.LookupStoreFactory;
import org.apache.paimon.lookup.LookupStoreReader;
import org.apache.paimon.lookup.LookupStoreWriter;
import org.apache.paimon.lookup.hash.HashLookupStoreFactory;
import org.apache.paimon.lookup.sort.SortLookupStoreFactory;
import org.apache.paimon.memory.MemorySlice;
import org.apache.paimon.options.MemorySize;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.utils.BloomFilter;

/**
 * Paimon's lookup stores as a contestant of the lookup benchmark: one JSON request a line in, one JSON answer a line out.
 *
 * <p>Keys and values are those of benchmarks/lookup_data.py. They are made in chunks, outside of the timed part.
 */
public class LookupBench {
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int CHUNK = 200_000;
    private static final int PAGE = 64 * 1024;
    private static final Map<String, LookupStoreFactory.Context> CONTEXTS = new HashMap<>();
    private static final Map<String, LookupStoreReader> READERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer(JSON.readTree(line), answer);
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private static void answer(JsonNode request, Map<String, Object> answer) throws Exception {
        String path = request.get("path").asText();
        switch (request.get("command").asText()) {
            case "build":
                build(path, request, answer);
                break;
            case "open":
                READERS.put(path, factory(request).createReader(new File(path), CONTEXTS.get(path)));
                break;
            case "get":
                get(READERS.get(path), request, answer);
                break;
            default:
                READERS.remove(path).close();
                new File(path).delete();
        }
    }

    private static LookupStoreFactory factory(JsonNode request) {
        CacheManager memory = new CacheManager(MemorySize.ofMebiBytes(256));
        CompressOptions codec = new CompressOptions(request.get("compression").asText(), 1);
        return request.get("kind").asText().equals("hash")
                ? new HashLookupStoreFactory(memory, PAGE, 0.75, codec)
                : new SortLookupStoreFactory(MemorySlice::compareTo, memory, PAGE, codec);
    }

    private static void build(String path, JsonNode request, Map<String, Object> answer) throws Exception {
        int rows = request.get("rows").asInt();
        int length = request.get("length").asInt();
        new File(path).delete();
        System.gc();
        long cpu = SYSTEM.getProcessCpuTime();
        long wall = System.nanoTime();
        LookupStoreWriter writer = factory(request).createWriter(new File(path), BloomFilter.builder(rows, 0.05));
        cpu = SYSTEM.getProcessCpuTime() - cpu;
        wall = System.nanoTime() - wall;
        byte[][] keys = new byte[CHUNK][];
        byte[][] values = new byte[CHUNK][];
        for (int start = 0; start < rows; start += CHUNK) {
            int count = Math.min(CHUNK, rows - start);
            for (int i = 0; i < count; i++) {
                keys[i] = key(2L * (start + i));
                values[i] = value(start + i, length);
            }
            cpu -= SYSTEM.getProcessCpuTime();
            wall -= System.nanoTime();
            for (int i = 0; i < count; i++) {
                writer.put(keys[i], values[i]);
            }
            cpu += SYSTEM.getProcessCpuTime();
            wall += System.nanoTime();
        }
        cpu -= SYSTEM.getProcessCpuTime();
        wall -= System.nanoTime();
        CONTEXTS.put(path, writer.close());
        cpu += SYSTEM.getProcessCpuTime();
        wall += System.nanoTime();
        answer.put("cpu", cpu / 1e9);
        answer.put("wall", wall / 1e9);
        answer.put("bytes", new File(path).length());
    }

    private static void get(LookupStoreReader reader, JsonNode request, Map<String, Object> answer) throws Exception {
        int count = request.get("count").asInt();
        int rows = request.get("rows").asInt();
        long seed = request.get("seed").asLong();
        int miss = request.get("hit").asBoolean() ? 0 : 1;
        long[] numbers = new long[count];
        for (int i = 0; i < count; i++) {
            numbers[i] = 2 * Long.remainderUnsigned(mix(seed + i), rows) + miss;
        }
        if (request.get("sorted").asBoolean()) {
            int batch = request.get("batch").asInt();
            for (int i = 0; i < count; i += batch) {
                Arrays.sort(numbers, i, Math.min(count, i + batch));
            }
        }
        byte[][] keys = new byte[count][];
        for (int i = 0; i < count; i++) {
            keys[i] = key(numbers[i]);
        }
        // The clock of a thread has nanoseconds, that of the process hundredths of a second.
        long cpu = THREADS.getCurrentThreadCpuTime();
        long wall = System.nanoTime();
        long found = 0;
        long bytes = 0;
        for (byte[] key : keys) {
            byte[] value = reader.lookup(key);
            if (value != null) {
                found++;
                bytes += value.length;
            }
        }
        answer.put("cpu", (THREADS.getCurrentThreadCpuTime() - cpu) / 1e9);
        answer.put("wall", (System.nanoTime() - wall) / 1e9);
        answer.put("found", found);
        answer.put("value_bytes", bytes);
    }

    private static byte[] key(long number) {
        byte[] key = new byte[8];
        for (int i = 0; i < 8; i++) {
            key[i] = (byte) (number >>> (56 - 8 * i));
        }
        return key;
    }

    private static byte[] value(long row, int length) {
        byte[] value = new byte[length];
        Arrays.fill(value, (byte) ('a' + row % 26));
        for (int word = 0; word < 6 && 8 * word + 8 <= length; word++) {
            long mixed = mix(row * 6 + word);
            for (int i = 0; i < 8; i++) {
                value[8 * word + i] = (byte) (mixed >>> (8 * i));
            }
        }
        return value;
    }

    private static long mix(long number) {
        number *= 0x9E3779B97F4A7C15L;
        number = (number ^ (number >>> 30)) * 0xBF58476D1CE4E5B9L;
        number = (number ^ (number >>> 27)) * 0x94D049BB133111EBL;
        return number ^ (number >>> 31);
    }
}
