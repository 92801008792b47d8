/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of clients, parsed and checked
 *
 * docs/service.md describes their JSON.
 */

#ifndef BTRAIL_COMMAND_H
#define BTRAIL_COMMAND_H

#include "drain/session.h"
#include "service/service-error.h"

#define BTRAIL_COMMAND_MAX_CR3          64      /* what a device takes */
#define BTRAIL_COMMAND_MAX_PROCESSES    64
#define BTRAIL_COMMAND_MAX_TRIGGERS     32
#define BTRAIL_COMMAND_MAX_NAME         63      /* bytes */
#define BTRAIL_COMMAND_MAX_TEXT         255     /* bytes */

enum btrail_command_do {
    BTRAIL_COMMAND_START,
    BTRAIL_COMMAND_STOP,
    BTRAIL_COMMAND_DUMP,
    BTRAIL_COMMAND_STATUS,
    BTRAIL_COMMAND_LIST,
};

/* Whether to search the guest's memory for names; a larger value does more. */
enum btrail_command_names {
    BTRAIL_COMMAND_NAMES_OFF,
    BTRAIL_COMMAND_NAMES_AUTO,
    BTRAIL_COMMAND_NAMES_ALL,   /* the guest waits for each snapshot */
};

/**
 * struct btrail_command
 * @what:       enum btrail_command_do
 * @json:       the object that it was read from; what was not there and has a
 *              default is not in it
 * @session:    NULL if it was not given
 * @file:       checked by btrail_folder_check_name(), or NULL
 * @owner:      NULL if it was not given
 * @filter:     its vCPUs are sorted, each once
 * @privilege:  BTRAIL_PRIVILEGE_*
 * @mode:       enum btrail_session_mode
 * @limit:      with mode "last": the one that was given; others are 0
 * @overflow:   enum btrail_overflow_policy
 * @duration_ms: 0 for ever
 * @triggers:   @n_triggers of them
 * @at:         PROCESS:PLACE of each as it came; PLACE is a symbol or an
 *              address
 * @names:      enum btrail_command_names
 * @split:      bytes, or 0
 * @guest:      of "list", another guest of the same user; or NULL
 * @uuid:       its UUID, or NULL
 */
struct btrail_command {
    unsigned what;
    JsonObject *json;
    char *session;
    char *file;
    char *owner;
    struct btrail_session_filter filter;
    unsigned privilege;
    unsigned mode;
    struct btrail_session_limit limit;
    unsigned overflow;
    uint64_t duration_ms;
    struct btrail_trigger *triggers;
    unsigned n_triggers;
    char **at;
    unsigned names;
    uint64_t split;
    char *guest;
    char *uuid;
};

/* The error says, in words for the client, what is wrong. */
struct btrail_command *btrail_command_parse(JsonObject *json, GError **error);
void btrail_command_free(struct btrail_command *c);

typedef struct btrail_command btrail_command;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(btrail_command, btrail_command_free)

/*
 * The options of a session that a command "start" requests; they point into it.
 * The caller adds metadata, store, folder, files and resume.  @ring: the most
 * bytes that mode "last" keeps
 */
struct btrail_session_options
btrail_command_options(const struct btrail_command *c, uint64_t ring);

/* The mark that a trigger's 'at' names, from its "mark:" on, or NULL */
const char *btrail_command_mark(const char *at);

/* The word for enum btrail_trigger_action in JSON */
const char *btrail_command_action_name(unsigned action);

#endif /* BTRAIL_COMMAND_H */
