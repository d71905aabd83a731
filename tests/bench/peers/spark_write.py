"""Parquet to shards by Spark and its connector: SPARK_TFRECORD_JAR=... spark_write.py TABLE OUT"""

import os
import sys

from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", os.environ["SPARK_TFRECORD_JAR"])
    .config("spark.driver.memory", "4g")
    .getOrCreate()
)
spark.read.parquet(sys.argv[1]).write.mode("overwrite").format("tfrecord").option("recordType", "Example").save(sys.argv[2])
