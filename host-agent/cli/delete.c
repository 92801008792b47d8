/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail delete: deletes traces that a service has written
 *
 * Only users who may write to the folder can do this: the service itself
 * deletes nothing, so that no QEMU can have it delete what it did.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/traces.h"
#include "lib/agent/parts.h"
#include "util/json.h"

/* Deletes all files of a trace; the first one last, by which it is found. */
static bool delete_files(const struct folder *folder, const char *file,
                         JsonArray *deleted)
{
    g_autoptr(GArray) files = folder_list(folder);

    for (unsigned i = files->len; i > 0; i--) {
        const char *name =
            g_array_index(files, struct folder_file, i - 1).name;
        g_autofree char *first = btrail_part_first(name,
                                                   btrail_part_number(name));
        g_autofree char *path = NULL;
        g_autoptr(GError) error = NULL;
        int fd;

        if (strcmp(name, file) && g_strcmp0(first, file)) {
            continue;
        }
        path = folder_find(folder, name, &fd, &error);
        if (!path) {
            cli_error("%s", error->message);
            return false;
        }
        if (unlink(path) < 0) {
            cli_error("%s/%s: %s", folder->path, name, g_strerror(errno));
            close(fd);
            return false;
        }
        close(fd);
        json_array_add_string_element(deleted, name);
    }
    return true;
}

static bool delete_trace(struct cli_traces *t, const char *name,
                         JsonArray *deleted)
{
    g_autofree char *file = g_strdup(name);
    struct folder *folder = cli_traces_find(t, &file);
    g_autoptr(GHashTable) writing = folder ? cli_traces_writing(folder) : NULL;
    bool ok = folder != NULL;

    if (ok && g_hash_table_contains(writing, file)) {
        cli_error("%s/%s is being written; backtrail stop ends the session",
                  folder->path, file);
        ok = false;
    }
    ok = ok && delete_files(folder, file, deleted);
    folder_free(folder);
    return ok;
}

static int delete_traces(struct cli_traces *t, char *const *names, bool json)
{
    JsonArray *deleted = json_array_new();
    int code = CLI_OK;

    for (; *names; names++) {
        if (!delete_trace(t, *names, deleted)) {
            code = CLI_FAILED;
        }
    }
    if (json) {
        cli_print_json(btrail_json_new("a:deleted", deleted, NULL));
    } else {
        for (unsigned i = 0; i < json_array_get_length(deleted); i++) {
            cli_printf("deleted %s\n",
                       json_array_get_string_element(deleted, i));
        }
        json_array_unref(deleted);
    }
    return fflush(stdout) ? CLI_FAILED : code;
}

int cmd_delete(int argc, char **argv)
{
    struct cli_traces t = { 0 };
    gboolean json = FALSE;
    const GOptionEntry entries[] = {
        CLI_TRACES_ENTRIES(&t),
        { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, -1, "[GUEST] TRACE...",
                  "Delete traces of a guest.")) {
        /* With a monitor, all are traces. */
        const char *guest = t.guest.qmp ? NULL : argv[1];
        char **names = argv + (guest ? 2 : 1);

        if (!*names) {
            cli_error("missing GUEST or TRACE; backtrail list shows both");
        } else if (cli_traces_check(&t, guest)) {
            code = cli_traces_remote(&t) ?
                   cli_traces_forward(&t, "delete", json ? "--json" : NULL,
                                      names) :
                   delete_traces(&t, names, json);
        }
    }
    cli_traces_clear(&t);
    return code;
}
