-- :records orders with four items each on average, and the other tables in TPC-H's proportions to them. Values follow
-- from hashes of the keys: the same rows at every set-up.
SELECT greatest(:records / 10, 25) AS customers, greatest(:records * 2 / 15, 200) AS parts,
    greatest(:records / 150, 25) AS suppliers \gset
INSERT INTO region SELECT n, (ARRAY['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST'])[n + 1] FROM generate_series(0, 4) AS n;
INSERT INTO nation SELECT n, 'NATION ' || n, n % 5 FROM generate_series(0, 24) AS n;
INSERT INTO supplier SELECT n, 'Supplier#' || n, n % 25 FROM generate_series(1, :suppliers) AS n;
INSERT INTO customer
SELECT n, 'Customer#' || n, md5(n::text), n % 25, lpad(n::text, 15, '0'), (abs(hashint4(n)) % 1099998 - 99999) / 100.0,
    (ARRAY['AUTOMOBILE', 'BUILDING', 'FURNITURE', 'MACHINERY', 'HOUSEHOLD'])[1 + abs(hashint4(n + 1)) % 5], md5(n::text)
FROM generate_series(1, :customers) AS n;
INSERT INTO part
SELECT n, 'Brand#' || 1 + n % 5 || 1 + n / 5 % 5,
    (ARRAY['PROMO', 'STANDARD', 'SMALL', 'MEDIUM', 'LARGE', 'ECONOMY'])[1 + abs(hashint4(n)) % 6] || ' BURNISHED TIN',
    1 + abs(hashint4(n + 2)) % 50,
    (ARRAY['SM', 'LG', 'MED', 'JUMBO', 'WRAP'])[1 + abs(hashint4(n + 3)) % 5] || ' '
        || (ARRAY['CASE', 'BOX', 'BAG', 'JAR', 'PKG', 'PACK', 'CAN', 'DRUM'])[1 + abs(hashint4(n + 4)) % 8]
FROM generate_series(1, :parts) AS n;
INSERT INTO orders
SELECT n, 1 + abs(hashint8(n)::bigint) % :customers, 'O', 1000 + abs(hashint8(n + 1)::bigint) % 400000,
    date '1992-01-01' + (abs(hashint8(n + 2)::bigint) % 2406)::int,
    (ARRAY['1-URGENT', '2-HIGH', '3-MEDIUM', '4-NOT SPECIFIED', '5-LOW'])[1 + abs(hashint8(n + 3)::bigint) % 5], 0
FROM generate_series(1, :records::bigint) AS n;
INSERT INTO lineitem
SELECT n, 1 + h % :parts, 1 + h / 7 % :suppliers, item, 1 + h % 50, 900 + h % 100000, h % 11 / 100.0, h % 9 / 100.0,
    CASE WHEN shipped + 15 <= date '1995-06-17' THEN (ARRAY['R', 'A'])[1 + h % 2] ELSE 'N' END,
    CASE WHEN shipped > date '1995-06-17' THEN 'O' ELSE 'F' END, shipped, ordered + 30 + (h / 3 % 61)::int,
    shipped + 1 + (h / 5 % 30)::int,
    (ARRAY['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN'])[1 + h / 11 % 4],
    (ARRAY['REG AIR', 'AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL', 'FOB'])[1 + h / 13 % 7]
FROM (
    SELECT n, item, h, ordered, ordered + 1 + (h % 121)::int AS shipped
    FROM (
        SELECT n, item, abs(hashint8(n * 8 + item)::bigint) AS h,
            date '1992-01-01' + (abs(hashint8(n + 2)::bigint) % 2406)::int AS ordered
        FROM generate_series(1, :records::bigint) AS n, generate_series(1, 7) AS item
        WHERE item <= 1 + abs(hashint8(n + 5)::bigint) % 7
    ) AS keys
) AS items;
VACUUM ANALYZE region, nation, supplier, customer, part, orders, lineitem;
