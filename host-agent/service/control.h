/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A control connection: what goes to and from a device; see transport.h
 *
 * All of it happens in the thread of the default main context, and nothing
 * waits.
 */

#ifndef BTRAIL_CONTROL_H
#define BTRAIL_CONTROL_H

#include <json-glib/json-glib.h>

#include "service/service-error.h"

struct btrail_control;

/* Commands that may wait for their replies; more disconnect the device. */
#define BTRAIL_CONTROL_MAX_COMMANDS 256

/**
 * struct btrail_control_handler - whose connection it is
 * @guest:   the device says whose it is, once and before all else.  False
 *           disconnects it.
 * @command: one has come that @id is to be replied to, in any order
 * @event:   @data may be NULL
 * @closed:  nothing comes any more, and what was executed and not answered
 *           has been answered with an error.  btrail_control_free() is for
 *           the handler to call, here or later.
 */
struct btrail_control_handler {
    bool (*guest)(void *opaque, JsonObject *guest, GError **error);
    void (*command)(void *opaque, gint64 id, JsonObject *command);
    void (*event)(void *opaque, const char *event, JsonObject *data);
    void (*closed)(void *opaque, const GError *why);
};

/* @sock is owned by it. */
struct btrail_control *
btrail_control_new(int sock, const struct btrail_control_handler *handler,
                   void *opaque);

/* Hangs up; nothing is called any more.  May be called in any handler. */
void btrail_control_free(struct btrail_control *c);

/* Reply to a command; @result is taken.  NULL for an empty object. */
void btrail_control_return(struct btrail_control *c, gint64 id,
                           JsonNode *result);
void btrail_control_fail(struct btrail_control *c, gint64 id,
                         const char *why);

/*
 * The answer to what was executed: @result or @error.
 */
typedef void btrail_control_answer(void *opaque, JsonNode *result,
                                   const GError *error);

/*
 * Execute a QMP command; @arguments is taken and may be NULL.  @answer is
 * called once, later, unless the connection is freed before.
 */
void btrail_control_execute(struct btrail_control *c, const char *command,
                            JsonObject *arguments,
                            btrail_control_answer *answer, void *opaque);

#endif /* BTRAIL_CONTROL_H */
