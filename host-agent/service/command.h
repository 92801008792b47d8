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

#define COMMAND_MAX_CR3          64             /* what a device takes */
#define COMMAND_MAX_PROCESSES    64
#define COMMAND_MAX_TRIGGERS     32
#define COMMAND_MAX_SYSROOTS     16
#define COMMAND_MAX_TEXT         255            /* bytes */

enum command_do {
    COMMAND_START,
    COMMAND_STOP,
    COMMAND_DUMP,
    COMMAND_STATUS,
    COMMAND_LIST,
};

/**
 * struct service_command
 * @what:       enum command_do
 * @json:       the object that it was read from; what was not there and has a
 *              default is not in it
 * @session:    NULL if it was not given
 * @file:       checked by folder_check_name(), or NULL
 * @owner:      NULL if it was not given
 * @filter:     its vCPUs are sorted, each once
 * @privilege:  BTRAIL_PRIVILEGE_*
 * @mode:       enum session_mode
 * @limit:      with mode "last": the one that was given; others are 0
 * @overflow:   enum btrail_overflow_policy
 * @duration_ms: 0 for ever
 * @triggers:   @n_triggers of them
 * @at:         PROCESS:PLACE of each as it came; PLACE is a symbol or an
 *              address
 * @until:      of each the mark that ends a span, as it came; or NULL
 * @sysroots:   absolute paths; NULL if none were given
 * @names:      enum names_wanted
 * @split:      bytes, or 0
 * @guest:      of "list", another guest of the same user; or NULL
 * @uuid:       its UUID, or NULL
 */
struct service_command {
    unsigned what;
    JsonObject *json;
    char *session;
    char *file;
    char *owner;
    struct session_filter filter;
    unsigned privilege;
    unsigned mode;
    struct session_limit limit;
    unsigned overflow;
    uint64_t duration_ms;
    struct trigger *triggers;
    unsigned n_triggers;
    char **at;
    char **until;
    const char *const *sysroots;
    unsigned names;
    uint64_t split;
    char *guest;
    char *uuid;
};

/* The error says, in words for the client, what is wrong. */
struct service_command *command_parse(JsonObject *json, GError **error);
void command_free(struct service_command *c);

typedef struct service_command service_command;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(service_command, command_free)

/*
 * The options of a session that a command "start" requests; they point into it.
 * The caller adds metadata, store, folder, files and resume.  @ring: the most
 * bytes that mode "last" keeps
 */
struct session_settings
command_options(const struct service_command *c, uint64_t ring);

#endif /* BTRAIL_COMMAND_H */
