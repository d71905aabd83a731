"""tf.data and parse_example over a set, as training code reads it: tf_data.py DIRECTORY MODULE, or count for MODULE

MODULE is what `tfr-sql schema DIRECTORY --as python` prints.
"""

import pathlib
import sys

import tensorflow as tf

files = sorted(str(path) for path in pathlib.Path(sys.argv[1]).glob("*.tfrecord"))
dataset = tf.data.TFRecordDataset(files, buffer_size=8 << 20)
options = tf.data.Options()
# The autotuner's own threads would be counted as the pipeline's work.
options.autotune.enabled = False
if sys.argv[2] == "count":
    rows = dataset.with_options(options).batch(4096).reduce(0, lambda rows, batch: rows + tf.size(batch))
else:
    module = {}
    exec(compile(pathlib.Path(sys.argv[2]).read_text(), sys.argv[2], "exec"), module)
    parsed = dataset.with_options(options).batch(4096).map(module["parse"])
    rows = parsed.reduce(0, lambda rows, _: rows + 1)
print(int(rows))
