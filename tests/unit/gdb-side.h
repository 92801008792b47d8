/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A gdb that a server in this process serves, as a test plays it
 */

#ifndef BTRAIL_GDB_SIDE_H
#define BTRAIL_GDB_SIDE_H

#include <glib.h>

#include "gdb/rsp.h"

struct gdb {
    int sock;
    struct rsp_parser *parser;
};

/* @sock: gets the server's side */
struct gdb gdb_new(int *sock);

/* It leaves, which is noticed, unless it has left. */
void leave(struct gdb *gdb);

void say(struct gdb *gdb, const char *payload);

/* Ctrl-C */
void interrupt(struct gdb *gdb);

/* The next packet, to be freed; NULL if the connection is closed.  The main loop
 * runs meanwhile. */
char *hear(struct gdb *gdb);

/* Requires an answer to a request, or what comes next if that is NULL. */
void check(struct gdb *gdb, const char *request, const char *want);

/* Asks the monitor for a command. */
void say_monitor(struct gdb *gdb, const char *line);

/* What is printed next must begin so. */
void check_printed(struct gdb *gdb, const char *begin);

/* The same of what a command prints, before it is answered */
void monitor(struct gdb *gdb, const char *line, const char *begin);

#endif /* BTRAIL_GDB_SIDE_H */
