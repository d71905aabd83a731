#!/bin/sh
# Writes these sets: sh make.sh TFR_SQL, in an empty directory. They are of commit be6cfdb, before the crates were rearranged.
set -e
sql="SELECT i AS id, i % 3 AS day, CAST(i AS DOUBLE) / 8 AS score, CAST(i AS REAL) / 4 AS ratio,
  CASE WHEN i % 4 = 0 THEN NULL ELSE 'item ' || i END AS name, to_timestamp_micros(1767225600000000 + i * 60000001) AS seen,
  CAST(i AS DECIMAL(10, 2)) AS price, [i, i + 1] AS pair
  FROM generate_series(0, 11) AS t(i)"
write() {
  out=$1
  shift
  "$tool" "$sql" --out "$out" --threads 1 --quiet "$@"
}
tool=$1
write plain
write counted --shards 3
write gzip --compression gzip --shard-rows 5
write zlib --compression zlib
write hosts --hosts 2
write shuffled --shuffle --seed 7 --shards 2
write split --split train=0.8,val=0.2 --split-by id
write partitioned --partition-by day
write exact --map 'score: bits' --map 'price: unscaled' --map 'seen: millis'
write masked --null mask
write sequence --record-type sequence-example --sequence pair
write described --shards 2 --emit tfds,tfmd,parse-fn,stats,index
write appended
write appended --mode append
sql="SELECT CAST('record ' || i AS BYTEA) AS record FROM generate_series(0, 11) AS t(i)"
write bytes --record-type bytes
sql="SELECT i AS id, CAST(i AS REAL) / 4 AS ratio FROM generate_series(0, 11) AS t(i)"
write snapshot --layout snapshot
