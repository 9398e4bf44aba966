/* The scanner in one piece, so that the compiler may inline what the files share: it is what gets built. */
#include "body.c"
#include "line.c"
#include "prefix.c"
#include "scanner.c"
#include "statement.c"
#include "ties.c"
