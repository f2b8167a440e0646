import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.BigIntType;
import org.apache.paimon.types.IntType;
import org.apache.paimon.types.VarCharType;

/**
 * Paimon's Java core as a contestant of the benchmarks: one JSON request a line in, one JSON answer a line out.
 *
 * <p>The rows are those of benchmarks/data.py. Java's writer takes rows one at a time, so they are made inside the
 * timed part; making them alone is timed too, in the same request, and subtracted.
 */
public class Bench {
    private static final String[] COLUMNS = {"k", "i1", "s1", "i2", "s2", "i3", "s3", "i4", "s4", "i5"};
    private static final long[] MULTIPLIERS = {7919, 104729, 1299709, 15485863, 32452843, 49979687};
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static long sink;

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
        if (request.get("command").asText().equals("write")) {
            write(path, request.get("start").asLong(), request.get("end").asLong(), request.get("keys").asLong(), answer);
            return;
        }
        if (request.get("command").asText().equals("compact")) {
            measure(answer, 0, 0, () -> compact(path, request.get("full").asBoolean()));
            return;
        }
        int[] projection = projection(request.get("columns"));
        if (request.path("check").asBoolean()) {
            answer.put("checksum", checksum(path, projection));
        }
        measure(answer, 0, 0, () -> answer.put("rows", scan(path, projection)));
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void measure(Map<String, Object> answer, double cpuOff, double wallOff, Work work) throws Exception {
        System.gc();
        long cpu = SYSTEM.getProcessCpuTime();
        long wall = System.nanoTime();
        work.run();
        answer.put("cpu", (SYSTEM.getProcessCpuTime() - cpu) / 1e9 - cpuOff);
        answer.put("wall", (System.nanoTime() - wall) / 1e9 - wallOff);
    }

    private static void write(String path, long start, long end, long keys, Map<String, Object> answer)
            throws Exception {
        delete(new File(path));
        Map<String, Object> making = new LinkedHashMap<>();
        measure(making, 0, 0, () -> {
            for (long r = start; r < end; r++) {
                sink += row(r, keys).getLong(0);
            }
        });
        measure(answer, (Double) making.get("cpu"), (Double) making.get("wall"), () -> {
            create(path);
            try (IOManager spill = IOManager.create(new File(path).getParent());
                    TableWriteImpl<?> writer = table(path).newWrite("bench");
                    TableCommitImpl commit = table(path).newCommit("bench")) {
                writer.withIOManager(spill);
                for (long r = start; r < end; r++) {
                    writer.write(row(r, keys));
                }
                commit.commit(1, writer.prepareCommit(true, 1));
            }
        });
    }

    private static void compact(String path, boolean full) throws Exception {
        FileStoreTable table = table(path).copy(Collections.singletonMap("write-only", "false"));
        try (IOManager spill = IOManager.create(new File(path).getParent());
                TableWriteImpl<?> writer = table.newWrite("bench");
                TableCommitImpl commit = table.newCommit("bench")) {
            writer.withIOManager(spill);
            Set<Integer> buckets = new HashSet<>();
            table.store().newScan().plan().files().forEach(file -> buckets.add(file.bucket()));
            for (int bucket : buckets) {
                writer.compact(BinaryRow.EMPTY_ROW, bucket, full);
            }
            commit.commit(1, writer.prepareCommit(true, 1));
        }
    }

    private static GenericRow row(long r, long keys) {
        GenericRow row = new GenericRow(COLUMNS.length);
        row.setField(0, (r % keys) * MULTIPLIERS[(int) (r / keys % 6)] % keys);
        for (int j = 1; j < COLUMNS.length; j++) {
            if ((r + j) % 3 != 0) {
                boolean isInt = COLUMNS[j].charAt(0) == 'i';
                row.setField(j, isInt
                        ? (Object) (int) ((r * 31 + j) & 0x7fffffff)
                        : BinaryString.fromString("s" + j + "-" + r % 100000));
            }
        }
        return row;
    }

    private static void create(String path) throws Exception {
        Schema.Builder schema = Schema.newBuilder().column("k", new BigIntType(false));
        for (int j = 1; j < COLUMNS.length; j++) {
            schema.column(COLUMNS[j], COLUMNS[j].startsWith("i") ? new IntType() : VarCharType.STRING_TYPE);
        }
        schema.primaryKey("k")
                .option("bucket", "1")
                .option("merge-engine", "partial-update")
                .option("file.format", "parquet")
                .option("file.compression", "zstd")
                .option("write-only", "true");
        new SchemaManager(LocalFileIO.create(), new Path(path)).createTable(schema.build());
    }

    private static FileStoreTable table(String path) {
        return FileStoreTableFactory.create(LocalFileIO.create(), new Path(path));
    }

    private static int[] projection(JsonNode columns) {
        if (columns == null || columns.isNull()) {
            return null;
        }
        int[] positions = new int[columns.size()];
        for (int i = 0; i < positions.length; i++) {
            positions[i] = Arrays.asList(COLUMNS).indexOf(columns.get(i).asText());
        }
        return positions;
    }

    private interface RowVisitor {
        void visit(InternalRow row);
    }

    private static void visit(String path, int[] projection, RowVisitor visitor) throws Exception {
        ReadBuilder builder = table(path).newReadBuilder();
        if (projection != null) {
            builder.withProjection(projection);
        }
        try (RecordReader<InternalRow> reader = builder.newRead().createReader(builder.newScan().plan().splits())) {
            reader.forEachRemaining(visitor::visit);
        }
    }

    private static long scan(String path, int[] projection) throws Exception {
        long[] count = new long[1];
        visit(path, projection, row -> {
            count[0]++;
            sink += row.getLong(0);
        });
        return count[0];
    }

    private static Map<String, List<Long>> checksum(String path, int[] projection) throws Exception {
        int width = projection == null ? COLUMNS.length : projection.length;
        long[] values = new long[width];
        long[] sums = new long[width];
        visit(path, projection, row -> {
            for (int i = 0; i < width; i++) {
                if (!row.isNullAt(i)) {
                    values[i]++;
                    sums[i] += number(row, i, COLUMNS[projection == null ? i : projection[i]]);
                }
            }
        });
        Map<String, List<Long>> result = new LinkedHashMap<>();
        for (int i = 0; i < width; i++) {
            result.put(COLUMNS[projection == null ? i : projection[i]], Arrays.asList(values[i], sums[i]));
        }
        return result;
    }

    private static long number(InternalRow row, int position, String column) {
        switch (column.charAt(0)) {
            case 'k':
                return row.getLong(position);
            case 'i':
                return row.getInt(position);
            default:
                return row.getString(position).toBytes().length;
        }
    }

    private static void delete(File file) {
        File[] children = file.listFiles();
        if (children != null) {
            for (File child : children) {
                delete(child);
            }
        }
        file.delete();
    }
}
