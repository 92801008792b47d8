/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A control connection: messages to and from a device; see transport.h
 *
 * Everything happens in the thread of the default main context, and nothing
 * blocks.
 */

#ifndef BTRAIL_CONTROL_H
#define BTRAIL_CONTROL_H

#include <json-glib/json-glib.h>

#include "service/service-error.h"

struct control;

/* Commands that may wait for replies; one more disconnects the device. */
#define CONTROL_MAX_COMMANDS 256

/**
 * struct control_handler - what a connection reports to its owner
 * @guest:   the device has described its guest, once and before anything
 *           else; returning false disconnects it
 * @command: a command that must be replied to with @id, in any order
 * @event:   an event; @data may be NULL
 * @closed:  the connection is lost, and all answers to executed commands have
 *           arrived, even if only as errors.  The owner calls control_free(),
 *           now or later.
 */
struct control_handler {
    bool (*guest)(void *opaque, JsonObject *guest, GError **error);
    void (*command)(void *opaque, gint64 id, JsonObject *command);
    void (*event)(void *opaque, const char *event, JsonObject *data);
    void (*closed)(void *opaque, const GError *why);
};

/* @sock is taken. */
struct control *
control_new(int sock, const struct control_handler *handler,
            void *opaque);

/* Does neither side wait for a reply? */
bool control_is_idle(const struct control *c);

/* Hang up; no handler is called any more.  Any handler may call this. */
void control_free(struct control *c);

/* Reply to a command; @result is taken.  NULL for an empty object. */
void control_return(struct control *c, gint64 id,
                    JsonObject *result);
void control_fail(struct control *c, gint64 id,
                  const char *why);

/* The answer to an executed command: @result or @error */
typedef void control_answer(void *opaque, JsonNode *result,
                            const GError *error);

/*
 * Have QEMU execute a QMP command; @arguments is taken and may be NULL.
 * @answer is called once, later, unless the connection is freed before.
 */
void control_execute(struct control *c, const char *command,
                     JsonObject *arguments,
                     control_answer *answer, void *opaque);

#endif /* BTRAIL_CONTROL_H */
