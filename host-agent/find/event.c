/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens at moments that a person looks for: see event.h
 */

#include <string.h>

#include "find/event.h"
#include "symbolize/vectors.h"
#include "symbolize/syscall-name.h"
#include "util/closest.h"
#include "util/parse.h"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)
#define fail_names(error, ...) \
    agent_fail(error, AGENT_ERROR_NAMES, __VA_ARGS__)

/* Where Linux is entered by a system call, whichever it is */
static const char *const entries[] = {
    "entry_SYSCALL_64", "entry_SYSCALL_compat", "entry_SYSENTER_compat",
    "entry_INT80_compat", "asm_int80_emulation",
};

/* Moves past a word and the blanks after it.  The word can be the last. */
static bool take_word(const char **text, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*text, word, len) || ((*text)[len] && (*text)[len] != ' ')) {
        return false;
    }
    *text += len + strspn(*text + len, " ");
    return true;
}

static bool parse_instruction(const char *text, struct find_event *what)
{
    const char *address = *text == '*' ? text + 1 : text;

    what->kind = FIND_EVENT_INSTRUCTION;
    return *text == '*' && parse_text_number(address, NULL, &what->address);
}

/* The task after a word, such as "to"; at the end, or only if there is none */
static bool take_task(const char *text, const char *word, char **task)
{
    if (!take_word(&text, word)) {
        return false;
    }
    *task = *text ? g_strdup(text) : NULL;
    return *text;
}

static bool parse_switch(const char *text, struct find_event *what)
{
    static const struct {
        const char *word;
        enum switch_why why;
    } whys[] = {
        { "blocked", SWITCH_BLOCKED },
        { "preempted", SWITCH_PREEMPTED },
        { "dead", SWITCH_DEAD },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(whys) && !what->why; i++) {
        what->why = take_word(&text, whys[i].word) ? whys[i].why : SWITCH_ANY;
    }
    return !*text || take_task(text, "to", &what->name) ||
           take_task(text, "from", &what->from);
}

static bool parse_wake(const char *text, struct find_event *what)
{
    const char *by = text;

    if (take_word(&by, "by")) {
        return take_task(text, "by", &what->from);
    }
    what->name = *text ? g_strdup(text) : NULL;
    return true;
}

bool find_event_is_from(const struct find_event *what)
{
    return what->kind == FIND_EVENT_WAKE ? !!what->from :
           what->kind == FIND_EVENT_SWITCH && (what->from ||
                                               (what->why && !what->name));
}

/* A kind of event, and the name after it */
static bool parse_event(const char *text, struct find_event *what)
{
    static const struct {
        const char *word;
        enum find_event_kind kind;
    } words[] = {
        { "syscall", FIND_EVENT_SYSCALL },
        { "interrupt", FIND_EVENT_INTERRUPT },
        { "exception", FIND_EVENT_EXCEPTION },
        { "switch", FIND_EVENT_SWITCH },
        { "wake", FIND_EVENT_WAKE },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
        if (take_word(&text, words[i].word)) {
            what->kind = words[i].kind;
            if (what->kind == FIND_EVENT_SWITCH) {
                return parse_switch(text, what);
            }
            if (what->kind == FIND_EVENT_WAKE) {
                return parse_wake(text, what);
            }
            what->name = *text ? g_strdup(text) : NULL;
            return true;
        }
    }
    return false;
}

/* panic is each time that it runs, panic#1 the first one. */
static enum find_event_kind kind_of_place(const struct find_place *p)
{
    if (p->one) {
        return FIND_EVENT_PLACE;
    }
    return p->kind == FIND_PLACE_FUNCTION ? FIND_EVENT_FUNCTION :
           p->kind == FIND_PLACE_MARK ? FIND_EVENT_MARK : FIND_EVENT_PLACE;
}

bool find_event_parse(const char *text, struct find_event *what, GError **error)
{
    memset(what, 0, sizeof(*what));
    if (parse_instruction(text, what) || parse_event(text, what)) {
        return true;
    }
    if (*text == '*') {
        return fail(error, "'%s' is not the address of an instruction, such as "
                    "*0xffffffff81000000", text);
    }
    if (!find_place_parse(text, &what->place, error)) {
        g_prefix_error(error, "%s", "neither 'syscall NAME', 'interrupt N', "
                       "'exception N', 'switch to TASK', 'wake TASK', "
                       "mark:NAME nor *ADDRESS: ");
        return false;
    }
    what->kind = kind_of_place(&what->place);
    return true;
}

void find_event_clear(struct find_event *what)
{
    find_place_clear(&what->place);
    g_clear_pointer(&what->name, g_free);
    g_clear_pointer(&what->from, g_free);
}

/* Functions of the kernel that a system call is entered by */
static void add_entries(const struct btrail_names *names, GArray *starts)
{
    struct btrail_symbol_era era;
    struct btrail_symbol symbol;

    for (size_t i = 0; !btrail_names_symbol_era(names, i, &symbol, &era);
         i++) {
        for (unsigned k = 0; k < G_N_ELEMENTS(entries); k++) {
            if (!strcmp(symbol.name, entries[k])) {
                kernel_start_add(starts, symbol.address, &era);
            }
        }
    }
    kernel_start_add(starts, BTRAIL_PSEUDO_SYSCALL, NULL);
}

/* The functions of one system call */
static void add_syscall(const struct btrail_names *names, const char *name,
                        GArray *starts, struct closest *closest)
{
    struct btrail_symbol_era era;
    struct btrail_symbol symbol;

    for (size_t i = 0; !btrail_names_symbol_era(names, i, &symbol, &era);
         i++) {
        const char *found = strchr("tTwW", symbol.type) ?
                            syscall_name(names, era.kernel, era.last,
                                         symbol.address, symbol.name) : NULL;

        if (found) {
            closest_offer(closest, found);
        }
        if (found && !strcmp(found, name)) {
            kernel_start_add(starts, symbol.address, &era);
        }
    }
}

static bool add_event(const struct find_event *what,
                      const struct btrail_names *names, GArray *starts,
                      GError **error)
{
    struct closest closest = closest_to(what->name ?: "");
    bool exception = what->kind == FIND_EVENT_EXCEPTION;
    g_autofree char *hint = NULL;

    if (what->kind != FIND_EVENT_SYSCALL) {
        vectors_find(names, exception, what->name, starts);
    } else if (what->name) {
        add_syscall(names, what->name, starts, &closest);
    } else {
        add_entries(names, starts);
    }
    if (starts->len) {
        return true;
    }
    hint = closest_hint(&closest);
    return fail_names(error, "the guest's kernel has no %s '%s'%s, or the "
                      "trace has no names",
                      what->kind == FIND_EVENT_SYSCALL ? "system call" :
                      exception ? "exception" : "interrupt", what->name, hint);
}

struct find_target *find_event_target(const struct find_event *what,
                                      const struct btrail_trace *trace,
                                      struct symbolizer *symbols,
                                      GError **error)
{
    GArray *starts;
    struct btrail_names *names;
    bool ok;
    int ret;

    if (what->kind == FIND_EVENT_FUNCTION) {
        return find_target_function(trace, symbols, what->place.process,
                                    what->place.name, error);
    }
    if (what->kind == FIND_EVENT_INSTRUCTION) {
        return find_target_instruction(what->address);
    }
    if (what->kind == FIND_EVENT_MARK) {
        return find_target_mark(trace, symbols, &what->place.mark, error);
    }
    ret = btrail_names_open(&names, trace);
    if (ret) {
        fail(error, "the trace: %s", btrail_strerror(ret));
        return NULL;
    }
    starts = g_array_new(FALSE, FALSE, sizeof(struct kernel_start));
    ok = add_event(what, names, starts, error);
    if (!ok) {
        btrail_names_close(names);
        g_array_unref(starts);
        return NULL;
    }
    return find_target_starts(starts, names);
}
