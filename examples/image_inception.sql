-- Folders of JPEG images as Inception's build_image_data makes shards of them: train-00000-of-00002 and so on.
--
--   tfr-sql -f examples/image_inception.sql --out shards/ --prefix train --shards 2
--
-- Labels begin at 1, since 0 is for the background, in the order of the folders' names, which are the texts.
WITH labels AS (
    SELECT folder, CAST(row_number() OVER (ORDER BY folder) AS BIGINT) AS label
    FROM (SELECT DISTINCT split_part(path, '/', -2) AS folder FROM files('examples/data/images/**/*.jpg'))
), images AS (
    SELECT split_part(path, '/', -2) AS folder, split_part(path, '/', -1) AS name, content, image_info(content) AS info
    FROM files('examples/data/images/**/*.jpg')
)
SELECT
    info['height'] AS "image/height",
    info['width'] AS "image/width",
    CASE info['channels'] WHEN 1 THEN 'Grayscale' ELSE 'RGB' END AS "image/colorspace",
    info['channels'] AS "image/channels",
    label AS "image/class/label",
    labels.folder AS "image/class/text",
    info['format'] AS "image/format",
    name AS "image/filename",
    content AS "image/encoded"
FROM labels JOIN images ON labels.folder = images.folder
