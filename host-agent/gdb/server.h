/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server of one gdb, over a target: its requests, threads, breakpoints,
 * stops, and commands of the monitor
 *
 * A gdb has one request at a time.  Searches for its monitor are apart, and the
 * main loop continues meanwhile; they end when the gdb interrupts them, leaves,
 * or has waited for ten minutes.
 */

#ifndef BTRAIL_GDB_SERVER_H
#define BTRAIL_GDB_SERVER_H

#include "gdb/breakpoint-homes.h"
#include "gdb/client.h"
#include "gdb/monitor.h"
#include "gdb/packet.h"
#include "gdb/process-symbols.h"

/* This many gdbs are served at a time; others are disconnected. */
#define GDB_SERVERS_MAX     16

/*
 * Requests of our own, which commands of gdb's Python send.  GDB_SERVER_MOVED
 * is answered with the thread in question, once; E01 if there is none.
 */
#define GDB_SERVER_REQUEST  "qBacktrail."
#define GDB_SERVER_MOVED    GDB_SERVER_REQUEST "moved"

struct target_ops;

/**
 * struct gdb_server - for those who serve its target; they change nothing but
 * @moved
 * @client:   NULL when the gdb has left
 * @thread:   that requests are about
 * @moved:    the thread that a command of the monitor has taken somewhere, of
 *            which the gdb does not know yet; or PACKET_ANY
 * @runner:   the thread that runs alone, or PACKET_ANY
 * @breakpoints: those that are to be met when the target runs; see
 *            breakpoints.h
 * @homes:    those that gdb has set
 * @lists:    it is one of ours, which has the folder of files
 * @told:     the list of files that it has; see process-symbols.h
 * @held:     how the target has stopped, which gdb is told after it has another
 *            list; or NULL
 * @again:    the target is to run again, since that was no stop; or NULL
 * @request:  the last one, with a NUL after its @n bytes
 * @packet:   what kind it is, or NULL; what follows its name, and whose it is
 * @deadline: of the request, of g_get_monotonic_time()
 * @interrupted: it is, by its user
 * @search:   for its command of the monitor, or NULL
 */
struct gdb_server {
    const struct target_ops *ops;
    void *target;
    GMainContext *context;
    struct client *client;
    uint64_t thread;
    uint64_t moved;
    uint64_t runner;
    GHashTable *breakpoints;
    struct breakpoint_homes *homes;
    bool lists;
    unsigned told;
    char *held;
    GSource *again;
    char *request;
    size_t n;
    const struct packet *packet;
    const char *arguments;
    void *opaque;
    gint64 deadline;
    bool interrupted;
    struct apart *search;
    GSource *search_source;
    GSource *search_limit;
};

/**
 * struct target_ops - what is debugged.  What returns nothing answers by
 * itself, now or later
 * @packet_size: the most bytes of a request
 * @packets:  requests that this target alone knows; see packet_find()
 * @commands: of the monitor
 * @ask:      a request has come that is about the target, or has changed: it is
 *            to be served by gdb_server_serve().  NULL: at once
 * @interrupt: the gdb's user does not want to wait any longer; or NULL
 * @left:     the gdb has left; gdb_server_free() can be called
 * @features: appends what the target can do, as in an answer to qSupported
 * @thread:   the number of its thread @i; false if there are fewer
 * @describe: a thread, quoted, to be freed; or NULL
 * @step:     lets a thread execute one instruction, or takes one back
 * @go_on:    lets the target run; @thread alone if it can, unless PACKET_ANY
 * @breakpoint: inserts one if it has this kind, or removes it: @conditions is
 *            NULL.  Returns the answer, to be freed, or NULL with an error
 * @files:    the files of processes; NULL if there are none, @list is not
 *            asked for then
 * @list:     of files, where the target is; see process-symbols.h
 * @pc:       where a thread is
 * @unknown:  a request that is in no table, or whose thread has no description.
 *            NULL: there is no such request
 * @command:  runs a command of the monitor that does not search; if @c is NULL,
 *            @line is none of @commands.  See struct monitor_command.  NULL:
 *            there is none
 * @remains:  appends what a search has left to do, since what it changed itself
 *            is lost
 * @follow:   does that.  Returns a command that is to be run in place of the
 *            search, to be freed, or NULL
 * @failed:   a request that the server has passed on has failed; takes the
 *            error.  NULL: gdb_server_fail()
 */
struct target_ops {
    size_t packet_size;
    const struct packet *packets;
    const struct monitor_command *commands;
    void (*ask)(void *target);
    void (*interrupt)(void *target);
    void (*left)(void *target);
    void (*features)(void *target, GString *features);
    bool (*thread)(void *target, unsigned i, uint64_t *thread);
    char *(*describe)(void *target, uint64_t thread);
    void (*step)(void *target, uint64_t thread, bool forward);
    void (*go_on)(void *target, uint64_t thread, bool forward);
    char *(*breakpoint)(void *target, const char *key, const char *conditions,
                        GError **error);
    struct process_symbols *(*files)(void *target);
    unsigned (*list)(void *target);
    uint64_t (*pc)(void *target, uint64_t thread);
    void (*unknown)(void *target, const char *request, size_t n);
    char *(*command)(void *target, const struct monitor_command *c,
                     const char *argument, const char *line, GError **error);
    void (*remains)(void *target, GByteArray *then);
    char *(*follow)(void *target, const void *then, size_t n);
    void (*failed)(void *target, GError *error);
};

/*
 * Serves a gdb by two files, which can be one socket, in a main context, NULL
 * for the default one; both are taken.  @thread: that its requests are about
 */
struct gdb_server *gdb_server_new(const struct target_ops *ops, void *target,
                                  GMainContext *context, int in, int out,
                                  uint64_t thread);
void gdb_server_free(struct gdb_server *s);

/* Serves its request. */
void gdb_server_serve(struct gdb_server *s);

/*
 * While its request is served: is it still wanted?  It is not when the gdb has
 * left, has interrupted it, or, at @limited, has waited for ten minutes.
 */
bool gdb_server_wanted(struct gdb_server *s, bool limited);

/* Its request is interrupted, as if the gdb had done it. */
void gdb_server_interrupt(struct gdb_server *s);

/* Answers. */
void gdb_server_answer(struct gdb_server *s, const char *format, ...)
    G_GNUC_PRINTF(2, 3);
void gdb_server_answer_bytes(struct gdb_server *s, const void *bytes, size_t n);

/* Answers with digits for bytes. */
void gdb_server_answer_hex(struct gdb_server *s, const void *bytes, size_t n);

/* Answers with a piece of a text of @n bytes, as of qXfer. */
void gdb_server_answer_piece(struct gdb_server *s, const char *text, size_t n,
                             uint64_t offset, uint64_t size);

/*
 * Is a breakpoint at @pc meant where the target runs on?  @here: are those of a
 * file
 */
bool gdb_server_wants(const struct gdb_server *s, uint64_t pc,
                      breakpoint_home_fn *here, void *opaque);

/*
 * Answers that a thread has stopped, which requests are about from now on.
 * @how: one of these, or another begin of such an answer
 *
 * If that is at a breakpoint of another process, the target runs again.
 */
#define GDB_STOP                "T05"
#define GDB_STOP_BEGIN          "T05replaylog:begin;"
#define GDB_STOP_END            "T05replaylog:end;"
#define GDB_STOP_INTERRUPTED    "T02"
void gdb_server_stopped(struct gdb_server *s, const char *how, uint64_t thread);

/*
 * Answers that what was asked for cannot be done; takes the error.  NULL, or
 * CANCELLED: it was interrupted.
 */
void gdb_server_fail(struct gdb_server *s, GError *error);

/* Prints an error, before the answer. */
void gdb_server_print_error(struct gdb_server *s, const char *message);

/* Hangs up. */
void gdb_server_end(struct gdb_server *s);

#endif /* BTRAIL_GDB_SERVER_H */
