/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the service answers of sessions and of their dumps
 */

#ifndef BTRAIL_CLIENT_ANSWER_H
#define BTRAIL_CLIENT_ANSWER_H

#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/progress.h"

/* Members of the answer to "status" that are arrays */
#define ANSWER_SESSIONS "sessions"
#define ANSWER_DUMPS    "dumps"

/* A member that is a number; 0 if it is missing or below 0 */
uint64_t answer_number(JsonObject *object, const char *name);

/* The same with a fraction */
double answer_double(JsonObject *object, const char *name);

/* Member @i of an array, NULL if that is no object; how many there are */
JsonObject *answer_member(JsonObject *answer, const char *array, unsigned i);
unsigned answer_members(JsonObject *answer, const char *array);

/* Has the session ended?  Is the dump written, or has it failed? */
bool answer_has_ended(JsonObject *session);
bool answer_is_written(JsonObject *dump);
bool answer_has_failed(JsonObject *session_or_dump);

/* What it has recorded so far */
struct progress answer_progress(JsonObject *session);

/* The path of the trace on the guest's host; to be freed */
char *answer_path(JsonObject *session_or_dump);

/* Why it has ended or failed; NULL if the service does not say so */
const char *answer_why(JsonObject *session_or_dump);

/*
 * The last one in an array of @status that has this name and file, of which
 * NULL is any; earlier ones of the same name may have ended.  NULL if there is
 * none.  It is that of @status.
 */
JsonObject *answer_last(JsonObject *status, const char *array,
                        const char *session, const char *file);

/* What of its processes and symbols a session has not found, as a list for
 * people, to be freed; or NULL */
char *answer_missing(JsonObject *session);

/* A member that is a number of bytes, as "1.500 MiB", to be freed */
char *answer_size_text(JsonObject *object, const char *name);

/* The names of sessions that have not ended, of one owner, or of all (NULL) */
char **answer_active(JsonObject *status, const char *owner);

#endif /* BTRAIL_CLIENT_ANSWER_H */
