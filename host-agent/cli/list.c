/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail list: the traces of guests, also of those that are gone
 */

#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/table.h"
#include "cli/trace-listing.h"
#include "service/listing.h"
#include "util/json.h"

JsonArray *cli_listing(GPtrArray *folders)
{
    JsonArray *guests = json_array_new();

    for (unsigned i = 0; i < folders->len; i++) {
        struct folder *folder = folders->pdata[i];
        g_autoptr(GHashTable) writing = cli_traces_writing(folder);
        JsonObject *listing = service_listing(folder, writing);
        g_autofree char *name = NULL, *uuid = NULL;

        folder_owner(folder, &name, &uuid);
        btrail_json_add(listing, "s:guest", name, "S:uuid",
                        *uuid == '-' ? NULL : uuid, NULL);
        json_array_add_object_element(guests, listing);
    }
    return guests;
}

static const char *text(JsonObject *o, const char *name)
{
    const char *value = btrail_json_string(o, name);

    return value ? value : "-";
}

static void add_traces(GPtrArray *table, JsonObject *guest)
{
    JsonArray *traces = btrail_json_array(guest, "traces");

    for (unsigned i = 0; traces && i < json_array_get_length(traces); i++) {
        JsonObject *t = json_array_get_object_element(traces, i);
        g_autofree char *bytes = g_strdup_printf(
            "%" G_GINT64_FORMAT, btrail_json_int(t, "bytes", 0));
        g_autofree char *records = json_object_has_member(t, "records") ?
            g_strdup_printf("%" G_GINT64_FORMAT,
                            btrail_json_int(t, "records", 0)) : g_strdup("-");
        const char *begin = text(t, json_object_has_member(t, "begin") ?
                                 "begin" : "changed");

        cli_table_add(table, text(guest, "guest"), text(t, "file"),
                      text(t, "session"), text(t, "state"), records, bytes,
                      begin, NULL);
    }
}

void cli_listing_print(JsonArray *guests)
{
    GPtrArray *table = cli_table_new("Guest", "File", "Session", "State",
                                     "Records", "Bytes", "Begin", NULL);
    unsigned n = json_array_get_length(guests);
    bool any;

    for (unsigned i = 0; i < n; i++) {
        add_traces(table, json_array_get_object_element(guests, i));
    }
    any = table->len > 1;
    cli_table_print(table);
    if (any) {
        cli_printf("\n");
    }
    for (unsigned i = 0; i < n; i++) {
        JsonObject *guest = json_array_get_object_element(guests, i);
        gint64 older = btrail_json_int(guest, "older", 0);

        cli_printf("Folder of %s: %s", text(guest, "guest"),
                   text(guest, "folder"));
        if (older) {
            cli_printf(", with %" PRId64 " older ones", older);
        }
        cli_printf("\n");
    }
}

static int list(struct cli_traces *t, bool json)
{
    g_autoptr(GPtrArray) folders = cli_traces_folders(t);
    g_autoptr(JsonArray) guests = NULL;

    if (!folders) {
        return CLI_FAILED;
    }
    guests = cli_listing(folders);
    if (json) {
        cli_print_json(btrail_json_new("a:guests", json_array_ref(guests),
                                       NULL));
    } else {
        cli_listing_print(guests);
    }
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

int cmd_list(int argc, char **argv)
{
    struct cli_traces t = { 0 };
    gboolean json = FALSE;
    const GOptionEntry entries[] = {
        CLI_TRACES_ENTRIES(&t),
        { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, CLI_OPTIONAL, "[GUEST]",
                  "List the traces of a guest, running or not, or of all.") &&
        cli_traces_check(&t, argv[1])) {
        code = cli_traces_remote(&t) ?
               cli_traces_forward(&t, "list", json ? "--json" : NULL, NULL) :
               list(&t, json);
    }
    cli_traces_clear(&t);
    return code;
}
