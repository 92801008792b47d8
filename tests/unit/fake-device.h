/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A service in a folder of its own, and devices that send what a test says
 */

#ifndef BTRAIL_FAKE_DEVICE_H
#define BTRAIL_FAKE_DEVICE_H

#include <json-glib/json-glib.h>

#include "fake-producer.h"
#include "util/json.h"
#include "service/service.h"

#define DEADLINE    (30 * G_TIME_SPAN_SECOND)

struct device {
    int sock;
    int pid;
    gint64 last_id;
    struct fake_producer producer;
};

/* Of the test that runs: traces and state are below it. */
extern char *folder;
extern struct service *service;

/* Of devices that connect */
extern uid_t device_user;

/* Call a test, void (*)(void), with a new folder. */
void in_folder(gconstpointer test);

/* @more: configuration, from [all-guests] on */
void start_service(const char *more);
void stop_service(void);

/* Let the service work for a moment. */
void iterate(void);
/* For service_end() */
void set_true(void *opaque);
void wait_true(const bool *flag);
void wait_exists(const char *path, bool exists);

/*
 * A connection from a process: this one, or one of any other number, which the
 * kernel does not know
 */
void add_connection(int sock, int pid);

/* A connection that has said nothing; and one that has said its name */
void open_device(struct device *d, int pid);
void connect_device(struct device *d, const char *name, int pid);
/* The same of one that is traced, for this capture */
void connect_traced(struct device *d, const char *name, int pid,
                    const char *capture);
void disconnect(struct device *d);

void say(struct device *d, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* The next message from the service */
JsonNode *hear(struct device *d);

void command(struct device *d, const char *text);
/* What the command came to: its result; NULL if it was refused */
JsonObject *result_of(struct device *d, JsonNode **node);
/* Send a command, and have it refused with these words. */
void refused(struct device *d, const char *text, const char *why);

/* The service has something executed: the id to reply to */
gint64 expect_execute(struct device *d, const char *name);
void reply_done(struct device *d, gint64 id);
void reply_error(struct device *d, gint64 id, const char *why);

/* Make the connection for data, as a device does. */
void connect_data(struct device *d, int pid);
/* Wait until the agent has asked for data. */
void wait_ready(struct device *d);
/* Wait until the agent has asked for the end. */
void wait_stop(struct device *d);
/* What the device has left: an END event, and END */
void end_data(struct device *d, uint64_t index);

/* All that it takes to begin one */
void start_session(struct device *d, const char *text);
/* All that it takes to end the only one; its result */
JsonObject *stop_session(struct device *d, const char *name, uint64_t index,
                         JsonNode **node);

/* A new guest's session "s" records FAKE_RECORDS into s.btrail; its result */
JsonObject *record_session(struct device *d, JsonNode **node);

/* Is there a capture of this name in the state that survives the service? */
bool state_has(const char *capture);

#endif /* BTRAIL_FAKE_DEVICE_H */
