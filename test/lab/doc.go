// Package lab starts, breaks and inspects real Flink clusters on the loopback interface.
//
// A cluster is a set of plain processes, children of the program that uses the package: ZooKeeper (or etcd and kube-apiserver) for
// high availability, JobManagers and TaskManagers, each with a Prometheus reporter. They are killed, frozen, thawed and started again
// one by one, and the records their tasks write are counted, so that a test can play an incident and know what really happened.
//
// It needs Linux, a JDK 11 or 17 (java, javac, jar) and pip; Fetch brings the Flink distributions themselves. No child outlives the
// program: Stop ends them, and the kernel ends them when the program dies in any other way.
package lab
