/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kinds of reports share: see report-common.h
 */

#include <inttypes.h>

#include "cli/report-common.h"

double report_share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / whole : 0;
}

void report_set_hex(JsonObject *o, const char *name, uint64_t v)
{
    g_autofree char *text = g_strdup_printf("0x%016" PRIx64, v);

    json_object_set_string_member(o, name, text);
}

int report_failed(const struct report *r, int ret)
{
    cli_error("%s: %s", r->trace.path, cli_strerror(ret));
    return CLI_FAILED;
}
