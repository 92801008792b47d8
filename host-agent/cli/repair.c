/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail repair: completes a file that was cut off or damaged
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "util/json.h"

struct repair_options {
    char *output;
    gboolean force;
    gboolean in_place;
    gboolean dry_run;
    gboolean json;
};

/*
 * The default name of the output: x.repaired.btrail for x.btrail, and
 * x.repaired.1.btrail for its part x.1.btrail, so that both are found together.
 */
static char *default_output(const char *path)
{
    static const char suffix[] = ".btrail";
    size_t len = strlen(path), at;

    if (g_str_has_suffix(path, suffix) && len > strlen(suffix)) {
        len -= strlen(suffix);
    }
    for (at = len; at && g_ascii_isdigit(path[at - 1]); at--) {
        continue;
    }
    if (at == len || at < 2 || path[at - 1] != '.' || path[at - 2] == '/') {
        at = len;
    } else {
        at--;
    }
    return g_strdup_printf("%.*s.repaired%s", (int)at, path, path + at);
}

static bool is_sound(const struct btrail_repair_result *r)
{
    return r->whole ||
           (!r->copied.bad_chunks && !r->copied.gaps && !r->copied.ends);
}

static void say_failure(const char *path, const char *output,
                        const struct btrail_repair_result *r, int ret)
{
    if (ret == -BTRAIL_ERR_IO && errno == EEXIST && output) {
        cli_error("%s: the file exists; use --force to replace it", output);
    } else if (ret == -BTRAIL_ERR_IO && errno == EBUSY) {
        cli_error("%s: another process is writing the file; wait for its end",
                  path);
    } else if (ret == -BTRAIL_ERR_ARGUMENT && output) {
        cli_error("%s: this is the file to repair; choose another name for the "
                  "output, or use --in-place", output);
    } else if (ret == -BTRAIL_ERR_CORRUPT && !output) {
        cli_error("%s: more than its end is damaged (%" PRIu64 " chunks, %"
                  PRIu64 " records are missing); the file was not changed, "
                  "repair it without --in-place", path,
                  r->copied.bad_chunks, r->copied.lost);
    } else {
        cli_error("%s: %s", path, cli_strerror(ret));
    }
}

static void print_text(const char *path, const char *output,
                       const struct btrail_repair_result *r)
{
    const struct btrail_merge_result *c = &r->copied;

    if (r->whole) {
        cli_printf("%s: complete, nothing to repair\n", path);
        return;
    }
    if (r->no_header) {
        cli_error("%s: the file's header is damaged; the repaired file is a "
                  "trace of its own, separate from other parts", path);
    }
    cli_printf("%s: %" PRIu64 " records kept, %" PRIu64 "%s missing, %" PRIu64
               " damaged chunks left out, %u streams cut off", path, c->records,
               c->lost, c->lost_unknown ? " or more" : "", c->bad_chunks,
               c->ends);
    if (output && strcmp(output, path)) {
        cli_printf("; repaired in %s\n", output);
    } else {
        cli_printf("%s\n", output ? "; repaired" : "; not repaired yet");
    }
}

static void add_json(JsonArray *files, const char *path, const char *output,
                     const struct btrail_repair_result *r)
{
    JsonObject *o = btrail_json_new(
        "s:path", path, "S:output", r->whole ? NULL : output,
        "b:whole", r->whole, "b:cut", r->cut, "b:no_header", r->no_header,
        "b:continued", r->continued, NULL);

    cli_json_copied(o, &r->copied);
    json_array_add_object_element(files, o);
}

/*
 * The last part of a trace may only have to end the streams of others.  A file
 * that is completed in place has all that it had: without records, too, it is
 * then a whole part.
 */
static bool keeps_something(const struct repair_options *o,
                            const struct btrail_repair_result *r)
{
    return o->in_place || r->whole || r->copied.chunks || r->copied.ends;
}

static int repair(const struct repair_options *o, const char *path,
                  JsonArray *files)
{
    g_autofree char *output = NULL;
    struct btrail_repair_result r;
    unsigned flags = 0;
    int ret;

    if (o->in_place) {
        flags = BTRAIL_REPAIR_IN_PLACE;
    } else if (!o->dry_run) {
        flags = o->force ? BTRAIL_WRITER_REPLACE : 0;
        output = o->output ? g_strdup(o->output) : default_output(path);
    }
    ret = btrail_repair(path, output, flags, &r);
    if (ret) {
        say_failure(path, output, &r, ret);
        return CLI_FAILED;
    }
    if (!keeps_something(o, &r)) {
        if (output) {
            unlink(output);
        }
        cli_error("%s: nothing in this file can be kept", path);
        return CLI_FAILED;
    }
    if (o->json) {
        add_json(files, path, o->in_place ? path : output, &r);
    } else {
        print_text(path, o->in_place ? path : output, &r);
    }
    return is_sound(&r) && (r.whole || !o->dry_run) ? CLI_OK : CLI_DAMAGED;
}

static int run(const struct repair_options *o, char *const *paths)
{
    g_autoptr(JsonObject) root = json_object_new();
    JsonArray *files = json_array_new();
    int code = CLI_OK;

    for (; *paths; paths++) {
        int one = repair(o, *paths, files);

        /* A failure counts more than damage. */
        if (code != CLI_FAILED && one != CLI_OK) {
            code = one;
        }
    }
    json_object_set_array_member(root, "files", files);
    if (o->json) {
        cli_print_json(g_steal_pointer(&root));
    }
    return fflush(stdout) ? CLI_FAILED : code;
}

int cmd_repair(int argc, char **argv)
{
    struct repair_options o = { NULL };
    const GOptionEntry entries[] = {
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &o.output,
          "output file (default: FILE with .repaired in its name)", "OUT" },
        { "force", 'f', 0, G_OPTION_ARG_NONE, &o.force,
          "replace the new file if it exists", NULL },
        { "in-place", 0, 0, G_OPTION_ARG_NONE, &o.in_place,
          "complete FILE itself, if only its end is missing", NULL },
        { "dry-run", 'n', 0, G_OPTION_ARG_NONE, &o.dry_run,
          "show what would be kept, and write nothing", NULL },
        { "json", 0, 0, G_OPTION_ARG_NONE, &o.json, "print JSON", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Complete traces that were cut off or damaged.")) {
        /* cli_parse() has printed an error. */
    } else if (o.output && argc > 2) {
        cli_error("--output: only one FILE is possible");
    } else if (!!o.output + o.in_place + o.dry_run > 1) {
        cli_error("use only one of --output, --in-place and --dry-run");
    } else {
        code = run(&o, argv + 1);
    }
    g_free(o.output);
    return code;
}
