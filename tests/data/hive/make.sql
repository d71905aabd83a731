-- Hive 4.0.1 wrote the Parquet and Avro files of this directory, in a JVM with -Duser.timezone=America/Los_Angeles.
-- int64.parquet and proleptic.avro are tables of the same kind with hive.parquet.write.int64.timestamp=true and
-- hive.avro.proleptic.gregorian=true. unmarked.avro is hybrid.avro without the keys of the writer. The other files are text.
CREATE TABLE int96_now (id INT, ts TIMESTAMP) STORED AS PARQUET;
INSERT INTO int96_now VALUES (1, '2024-07-01 12:00:00'), (2, '2024-01-31 10:11:12.123456789'), (3, '2024-03-10 02:30:00'),
    (4, '2024-11-03 01:30:00'), (5, NULL), (6, '1950-08-09 00:00:00'), (7, '2200-07-01 12:00:00');
CREATE TABLE int96_all (id INT, ts TIMESTAMP, d DATE) STORED AS PARQUET;
INSERT INTO int96_all VALUES (1, '0001-01-01 00:00:00', '0001-01-01'), (2, '1500-02-28 23:30:00', '1500-02-28'),
    (3, '1582-10-04 12:00:00', '1582-10-04'), (4, '1582-10-15 01:00:00', '1582-10-15'), (5, '1899-12-31 10:00:00', '1899-12-31'),
    (6, '1883-11-18 12:00:00', '1883-11-18'), (7, '1969-12-31 23:59:59.5', '1969-12-31'), (8, '2024-07-01 12:00:00', '2024-07-01'),
    (9, '9999-12-31 23:59:59', '9999-12-31'), (10, '2500-07-01 12:00:00', '2500-07-01'),
    (11, '1910-06-01 00:00:00.000001', '1910-06-01');
CREATE TABLE hybrid (id INT, ts TIMESTAMP, d DATE) STORED AS AVRO;
INSERT INTO hybrid SELECT * FROM int96_all;
SET hive.parquet.timestamp.write.legacy.conversion.enabled=true;
CREATE TABLE int96_legacy (id INT, ts TIMESTAMP, d DATE) STORED AS PARQUET;
INSERT INTO int96_legacy SELECT * FROM int96_all;
SET hive.avro.timestamp.write.legacy.conversion.enabled=true;
CREATE TABLE legacy (id INT, ts TIMESTAMP, d DATE) STORED AS AVRO;
INSERT INTO legacy SELECT * FROM int96_all;
