/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of clients, parsed and checked
 *
 * docs/service.md describes their JSON.
 */

#ifndef BTRAIL_COMMAND_H
#define BTRAIL_COMMAND_H

#include <json-glib/json-glib.h>

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

/* What a session keeps, in mode "last" */
enum btrail_command_size {
    BTRAIL_COMMAND_BYTES,
    BTRAIL_COMMAND_RECORDS,
    BTRAIL_COMMAND_SECONDS,
};

enum btrail_command_action {
    BTRAIL_COMMAND_ACT_START,
    BTRAIL_COMMAND_ACT_STOP,
    BTRAIL_COMMAND_ACT_DUMP,
};

/* A process: @comm, or @pid if that is NULL */
struct btrail_command_process {
    char *comm;
    int pid;
};

/**
 * struct btrail_command_trigger
 * @at:      PROCESS:PLACE as it came; PLACE is a symbol or an address
 * @process: the first part of it; NULL for any
 * @symbol:  the second part, NULL if it is an address
 * @user:    @symbol is of programs and libraries, not of the kernel
 * @address: without @symbol
 * @hits:    how often it has to be executed, at least 1
 */
struct btrail_command_trigger {
    char *at;
    char *process;
    char *symbol;
    bool user;
    uint64_t address;
    enum btrail_command_action act;
    uint64_t hits;
};

/**
 * struct btrail_command
 * @json:       the object that it was read from; what was not there and has a
 *              default is not in it
 * @session:    NULL if it was not given
 * @file:       checked by btrail_folder_check_name(), or NULL
 * @owner:      NULL if it was not given
 * @vcpus:      of unsigned, sorted, each once; NULL for all
 * @cr3:        of uint64_t; NULL for all
 * @processes:  of struct btrail_command_process; NULL for all
 * @privilege:  BTRAIL_PRIVILEGE_*
 * @last:       mode "last"
 * @size_of:    what of, with @last
 * @size:       how many, with @last
 * @overflow:   enum btrail_overflow_policy
 * @duration_ms: 0 for ever
 * @triggers:   of struct btrail_command_trigger, or NULL
 * @names:      enum btrail_command_names
 * @split:      bytes, or 0
 * @guest:      of "list", another guest of the same user; or NULL
 * @uuid:       its UUID, or NULL
 */
struct btrail_command {
    enum btrail_command_do what;
    JsonObject *json;
    char *session;
    char *file;
    char *owner;
    GArray *vcpus;
    GArray *cr3;
    GArray *processes;
    unsigned privilege;
    bool last;
    enum btrail_command_size size_of;
    uint64_t size;
    unsigned overflow;
    uint64_t duration_ms;
    GArray *triggers;
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

/* The word for an action in JSON */
const char *btrail_command_action_name(unsigned action);

#endif /* BTRAIL_COMMAND_H */
