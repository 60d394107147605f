// Package beam runs real pipelines from Kafka into PostgreSQL on the Flink clusters of package lab, and counts what arrived.
//
// A Run is a Kafka broker, a PostgreSQL server and a Flink cluster, all on the loopback interface and children of the program that uses
// the package. Its pipeline is Beam's KafkaIO to JdbcIO, the same with Beam's defect patched away, Flink's own KafkaSource, or the older
// FlinkKafkaConsumer. The program produces records with ids at a rate and asks the database how many rows each id has: the truth that
// no view of Flink's own can tell.
//
// It needs what package lab needs, and Maven. PostgreSQL is installed with apt-get where it is missing. Compiled pipelines and their
// jars are kept in .cache/beam at the top of the repository.
package beam
