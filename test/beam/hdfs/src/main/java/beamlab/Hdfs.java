package beamlab;

import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.log4j.BasicConfigurator;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;

/** HDFS with one data node on loopback, until the process is ended: {@code Hdfs FOLDER NAME_NODE_PORT}. */
public class Hdfs {
  public static void main(String[] args) throws Exception {
    BasicConfigurator.configure();
    Logger.getRootLogger().setLevel(Level.WARN);
    Configuration conf = new Configuration();
    conf.setInt("dfs.replication", 1);
    conf.set("dfs.datanode.hostname", "127.0.0.1");
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf, new File(args[0]))
        .nameNodePort(Integer.parseInt(args[1]))
        .numDataNodes(1)
        .build();
    cluster.waitActive();
    System.out.println("active at " + cluster.getURI());
    Thread.currentThread().join();
  }
}
