import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;

/**
 * A small HDFS on this machine: a namenode and two datanodes. The argument is a directory for its files. It prints the
 * URL of the namenode, then answers each line of tab-separated words on standard input with a line. It ends with its
 * standard input.
 */
public class Hdfs {
  private static final Map<String, FSDataOutputStream> open = new HashMap<>();
  private static MiniDFSCluster.DataNodeProperties stopped;
  private static MiniDFSCluster cluster;

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err);
    HdfsConfiguration conf = new HdfsConfiguration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, args[0]);
    conf.setInt("dfs.replication", 2);
    conf.setInt("dfs.namenode.fs-limits.min-block-size", 1024);
    conf.setInt("dfs.heartbeat.interval", 1);
    cluster = new MiniDFSCluster.Builder(conf).numDataNodes(2).format(true).build();
    cluster.waitActive();
    out.println(cluster.getURI());
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String answer;
      try {
        answer = "ok\t" + answer(line.split("\t"));
      } catch (Exception e) {
        e.printStackTrace();
        answer = "failed\t" + e.toString().split("\n")[0];
      }
      out.println(answer);
    }
    // No shutdown: a test has ended, and its directory is removed.
    Runtime.getRuntime().halt(0);
  }

  private static String answer(String[] words) throws Exception {
    switch (words[0]) {
      case "put": // a local file, its path in HDFS, the size of blocks
        try (FSDataOutputStream to = create(words[2], Long.parseLong(words[3]))) {
          Files.copy(Paths.get(words[1]), to);
        }
        return "";
      case "write": { // as `put`, but the file stays open
        FSDataOutputStream to = create(words[2], Long.parseLong(words[3]));
        Files.copy(Paths.get(words[1]), to);
        to.hflush();
        open.put(words[2], to);
        return "";
      }
      case "close":
        open.remove(words[1]).close();
        return "";
      case "create": // an open file without a block
        open.put(words[1], create(words[1], 1 << 20));
        return "";
      case "rename":
        files().rename(new Path(words[1]), new Path(words[2]), Options.Rename.OVERWRITE);
        return "";
      case "mode":
        files().setPermission(new Path(words[1]), new FsPermission(words[2]));
        return "";
      case "replica": { // the local file of the first replica of the first block
        LocatedBlock block = files().getClient().getLocatedBlocks(words[1], 0, 1).get(0);
        File file = cluster.getBlockFile(0, block.getBlock());
        return file.getPath();
      }
      case "stop-datanode":
        stopped = cluster.stopDataNode(0);
        return "";
      case "start-datanode":
        cluster.restartDataNode(stopped, true);
        cluster.waitActive();
        return "";
      case "stop-namenode":
        cluster.shutdownNameNode(0);
        return "";
      case "start-namenode":
        cluster.restartNameNode(0, true);
        return "";
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  private static DistributedFileSystem files() throws Exception {
    return cluster.getFileSystem();
  }

  private static FSDataOutputStream create(String path, long block) throws Exception {
    return files().create(new Path(path), true, 1 << 16, (short) 2, block);
  }
}
