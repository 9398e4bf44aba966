# Measures TPROC-C with {threads} virtual users for {duration_min} minutes after {rampup_min} minutes.
# Versions differ in whether a command returns at once: this waits for all virtual users in both cases.
proc wait_for_users { } {
    while { ![vucomplete] } {
        after 1000 { set ::tick 1 }
        vwait ::tick
    }
}
dbset db pg
dbset bm TPC-C
diset connection pg_host {host}
diset connection pg_port {port}
diset connection pg_sslmode prefer
diset tpcc pg_superuser {user}
diset tpcc pg_superuserpass $::env(PGPASSWORD)
diset tpcc pg_defaultdbase {database}
diset tpcc pg_user {user}
diset tpcc pg_pass $::env(PGPASSWORD)
diset tpcc pg_dbase {database}
diset tpcc pg_storedprocs true
diset tpcc pg_cituscompat [expr {{citus} ? "true" : "false"}]
diset tpcc pg_driver timed
diset tpcc pg_rampup {rampup_min}
diset tpcc pg_duration {duration_min}
diset tpcc pg_allwarehouse true
diset tpcc pg_timeprofile true
loadscript
vuset vu {threads}
vucreate
vurun
wait_for_users
vudestroy
quit
