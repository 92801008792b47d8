/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Enables and disables each domain in FOLDER/in, into FOLDER/on and
 * FOLDER/off, and prints which were refused and why, one per line; makes each
 * one ready to be recorded, into FOLDER/rr
 *
 * usage: domains FOLDER
 */

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "libvirt/replayable.h"
#include "libvirt/tracing.h"

static void save(const char *folder, const char *what, const char *name,
                 xmlDoc *doc)
{
    g_autofree char *path = g_build_filename(folder, what, name, NULL);
    g_autofree char *text = document_text(doc);

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void prepare(const char *folder, const char *name, const char *text,
                    gsize len)
{
    g_autoptr(xmlDoc) doc = document_parse(text, len, NULL);
    struct replayable r;

    if (replayable_make(doc, false, &r, NULL)) {
        save(folder, "rr", name, doc);
        replayable_clear(&r);
    }
}

static void convert(const char *folder, const char *name)
{
    static const struct tracing_options options = {
        "/opt/qemu", "/run/agent", true
    };
    g_autofree char *path = g_build_filename(folder, "in", name, NULL);
    g_autofree char *text = NULL, *on = NULL;
    g_autoptr(xmlDoc) doc = NULL, enabled = NULL;
    g_autoptr(GError) error = NULL;
    gsize len;

    g_assert_true(g_file_get_contents(path, &text, &len, NULL));
    doc = document_parse(text, len, &error);
    if (!doc || !tracing_enable(doc, &options, NULL, &error)) {
        printf("%s: %s\n", name, error->message);
        return;
    }
    save(folder, "on", name, doc);
    on = document_text(doc);
    enabled = document_parse(on, strlen(on), &error);
    g_assert_no_error(error);
    tracing_disable(enabled, NULL, &error);
    g_assert_no_error(error);
    save(folder, "off", name, enabled);
    prepare(folder, name, text, len);
}

int main(int argc, char **argv)
{
    g_autofree char *in = NULL;
    const char *name;
    GDir *dir;

    g_assert_cmpint(argc, ==, 2);
    in = g_build_filename(argv[1], "in", NULL);
    dir = g_dir_open(in, 0, NULL);
    g_assert_nonnull(dir);
    while ((name = g_dir_read_name(dir))) {
        convert(argv[1], name);
    }
    g_dir_close(dir);
    return 0;
}
