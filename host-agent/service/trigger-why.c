/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why a trigger has acted: see trigger-why.h
 */

#include "service/trigger-why.h"

char *trigger_why(const char *at, const char *until,
                  const struct trigger_hit *hit)
{
    GString *text = g_string_new("trigger ");

    g_string_append(text, at);
    if (hit->took.ns && until) {
        g_string_append_printf(text, ", at least %.3f ms %s %s",
                               hit->took.ns / 1e6,
                               hit->took.lasts ? "without" : "until", until);
    } else if (hit->took.ns) {
        g_string_append_printf(text, ", which %s at least %.3f ms%s",
                               hit->took.lasts ? "had taken" : "took",
                               hit->took.ns / 1e6,
                               hit->took.lasts ? " and had not ended" : "");
    }
    if (hit->unsure) {
        g_string_append(text, ", if no mark was missed: the code of some was "
                        "forgotten");
    }
    return g_string_free(text, FALSE);
}
