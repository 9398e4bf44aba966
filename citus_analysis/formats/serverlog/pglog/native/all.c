/* The scanner in one piece, so that the compiler may inline what the files share: it is what gets built. */
#define INTERNAL static inline

#include "body.c"
#include "csv_rows.c"
#include "json_rows.c"
#include "line.c"
#include "prefix.c"
#include "row.c"
#include "rows.c"
#include "scanner.c"
#include "sessions.c"
#include "statement.c"
#include "links.c"
