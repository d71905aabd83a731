-- Pictures as TensorFlow's tutorial "TFRecord and tf.train.Example" has them: features height, width, depth, label,
-- image_raw.
--
--   tfr-sql -f examples/image_tutorial.sql --out shards/ --shards 1
--
-- A picture's label is the rank of its folder, from 0. The ranks come from the listing of the files, which are read once.
WITH labels AS (
    SELECT folder, CAST(row_number() OVER (ORDER BY folder) - 1 AS BIGINT) AS label
    FROM (SELECT DISTINCT split_part(path, '/', -2) AS folder FROM files('examples/data/images/**'))
), images AS (
    SELECT split_part(path, '/', -2) AS folder, content, image_info(content) AS info
    FROM files('examples/data/images/**')
)
SELECT info['height'] AS height, info['width'] AS width, info['channels'] AS depth, label, content AS image_raw
FROM labels JOIN images ON labels.folder = images.folder
