/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * All that the service says of a session, for people
 */

#ifndef BTRAIL_CLIENT_SESSION_FACTS_H
#define BTRAIL_CLIENT_SESSION_FACTS_H

#include <json-glib/json-glib.h>

/* Gets one of them, such as "Owner:" and "user@host"; neither is quoted. */
typedef void session_fact_fn(void *opaque, const char *title,
                             const char *text);

/* Calls @fact for each, in the order in which they are printed. */
void session_facts(JsonObject *session, session_fact_fn *fact, void *opaque);

#endif /* BTRAIL_CLIENT_SESSION_FACTS_H */
