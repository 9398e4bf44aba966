\set year random(1993, 1997)
SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= make_date(:year, 1, 1) AND l_shipdate < make_date(:year + 1, 1, 1)
  AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24;
