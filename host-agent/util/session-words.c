/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a session can be asked for: see session-words.h
 */

#include <glib.h>

#include "util/session-words.h"

static const char *const modes[] = {
    [SESSION_CONTINUOUS] = "continuous",
    [SESSION_LAST] = "last",
};

static const char *const actions[] = {
    [TRIGGER_START] = "start",
    [TRIGGER_STOP] = "stop",
    [TRIGGER_DUMP] = "dump",
};

static const char *const names[] = {
    [NAMES_OFF] = "off",
    [NAMES_AUTO] = "auto",
    [NAMES_ALL] = "all",
};

#define NAME(words, i)  ((i) < G_N_ELEMENTS(words) ? (words)[i] : NULL)

const char *session_mode_name(unsigned mode)
{
    return NAME(modes, mode);
}

const char *trigger_action_name(unsigned action)
{
    return NAME(actions, action);
}

const char *names_wanted_name(unsigned value)
{
    return NAME(names, value);
}

bool word_find(word_fn *name, const char *word, unsigned *value)
{
    for (unsigned i = 0; i < WORD_VALUES; i++) {
        if (word && !g_strcmp0(name(i), word)) {
            *value = i;
            return true;
        }
    }
    return false;
}

char *word_list(word_fn *name, const char *quote)
{
    g_autoptr(GString) list = g_string_new(NULL);
    const char *words[WORD_VALUES];
    unsigned n = 0;

    for (unsigned i = 0; i < WORD_VALUES; i++) {
        words[n] = name(i);
        n += words[n] != NULL;
    }
    for (unsigned i = 0; i < n; i++) {
        g_string_append_printf(list, "%s%s%s%s", !i ? "" :
                               i < n - 1 ? ", " : " or ", quote, words[i],
                               quote);
    }
    return g_string_free(g_steal_pointer(&list), FALSE);
}
