/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connection of a gdb: packets in and out, in a main loop
 *
 * A gdb sends its next request when it has the answer to the last one.  One
 * that does not, that breaks the protocol, or that connects and then says
 * nothing for 10 s, is disconnected.  Nothing is served inside of something
 * else: what takes long asks client_waits() whether its gdb still wants it.
 */

#ifndef BTRAIL_GDB_CLIENT_H
#define BTRAIL_GDB_CLIENT_H

#include <glib.h>
#include <stdbool.h>

struct client;

/**
 * struct client_functions - what is called, with the pointer of client_new()
 * @packet:    a request, to be answered by client_answer() now or later; it has
 *             a NUL after it
 * @interrupt: the user wants the guest to stop; client_waits() calls it, too
 * @closed:    the connection has ended, by either side: to be followed by
 *             client_free()
 */
struct client_functions {
    void (*packet)(void *opaque, const char *payload, size_t n);
    void (*interrupt)(void *opaque);
    void (*closed)(void *opaque);
};

/*
 * Takes a connected socket, or two files; @context: NULL for the default one;
 * @packet_size: the most bytes of a request.  SIGPIPE must be ignored if they
 * are pipes.
 */
struct client *client_new(GMainContext *context, int in, int out,
                          size_t packet_size,
                          const struct client_functions *functions,
                          void *opaque);
void client_free(struct client *c);

/* Answers the request. */
void client_answer(struct client *c, const char *payload, size_t n);

/* Sends text for its user to see, before the answer. */
void client_print(struct client *c, const char *text);

/*
 * The same, of an error, in a line.  It can have what gdb has sent, or names of
 * a trace: it is quoted.
 */
void client_print_error(struct client *c, const char *message);

/*
 * Answers a command of the monitor that was interrupted.  A gdb that has done
 * so takes one packet more.
 */
void client_answer_interrupted(struct client *c);

/* From the next request on neither side acknowledges packets. */
void client_stop_acks(struct client *c);

/*
 * While a request is served: does its gdb still wait for the answer?  Takes
 * what it has sent meanwhile, which can be no more than interrupts.
 */
bool client_waits(struct client *c);

/* What it sends to */
int client_in(const struct client *c);

/* Has it sent something that is not taken yet? */
bool client_has_sent(const struct client *c);

/* Hangs up; @closed is called in the main loop. */
void client_end(struct client *c);

#endif /* BTRAIL_GDB_CLIENT_H */
