UPDATE accounts SET balance = balance + 1 WHERE aid = :aid;
