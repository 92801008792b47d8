/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail fetch: brings a trace of a guest into a file, whole and verified
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/traces.h"
#include "cli/verify.h"
#include "util/json.h"

/**
 * struct fetch
 * @trace:   as it was given, or NULL for the last one
 * @output:  "-" for standard output
 * @begun:   the file under another name, before it is known to be whole
 * @records: that were copied
 */
struct fetch {
    struct cli_traces traces;
    char *trace;
    char *output;
    char *begun;
    gboolean force, json;
    uint64_t records;
};

static bool to_stdout(const struct fetch *f)
{
    return !strcmp(f->output, "-");
}

static int failed(const char *path)
{
    cli_error("%s: %s", path, g_strerror(errno));
    return CLI_FAILED;
}

/*
 * Copies all chunks of a trace.  Returns an exit code; CLI_DAMAGED if it is
 * incomplete where it is.
 */
static int copy(struct fetch *f, const struct folder *folder,
                const char *path)
{
    g_autofree char *shown = g_build_filename(folder->path, f->trace, NULL);
    char *const paths[] = { (char *)path, NULL };
    struct btrail_stream_info info;
    struct btrail_merge_result m;
    uint64_t records = 0;
    struct cli_trace t;
    int ret, code;

    if (!cli_trace_open(&t, paths)) {
        return CLI_FAILED;
    }
    t.path = shown;
    for (unsigned i = 0; !btrail_trace_stream(t.trace, i, &info); i++) {
        records += info.records;
    }
    ret = btrail_merge(t.trace, to_stdout(f) ? "/dev/stdout" : f->begun,
                       to_stdout(f) ? BTRAIL_WRITER_REPLACE : 0, &m);
    if (ret) {
        cli_error("%s: %s", f->output, cli_strerror(ret));
        code = CLI_FAILED;
    } else {
        code = cli_trace_verdict(&t, m.bad_chunks);
        f->records = m.records;
    }
    if (!code && m.records != records) {
        cli_error("%s: %" PRIu64 " of %" PRIu64 " records can be copied",
                  shown, m.records, records);
        code = CLI_DAMAGED;
    }
    cli_trace_close(&t);
    return code;
}

static int copy_here(struct fetch *f)
{
    struct folder *folder = cli_traces_find(&f->traces, &f->trace);
    g_autoptr(GHashTable) writing = folder ? cli_traces_writing(folder) : NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *path = NULL;
    int code = CLI_FAILED, fd;

    if (!folder) {
        return CLI_FAILED;
    }
    if (g_hash_table_contains(writing, f->trace)) {
        cli_error("%s/%s is being written; backtrail stop ends the session",
                  folder->path, f->trace);
    } else if (!(path = folder_find(folder, f->trace, &fd, &error))) {
        cli_error("%s", error->message);
    } else {
        code = copy(f, folder, path);
        close(fd);
    }
    folder_free(folder);
    return code;
}

static int copy_remote(struct fetch *f)
{
    g_autoptr(GPtrArray) args = g_ptr_array_new();
    const char *const words[] = {
        "fetch", "--output=-", f->traces.folder ? "--traces" : NULL,
        f->traces.folder, "--", f->traces.name, f->trace
    };
    int code, fd = -1;

    for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
        if (words[i]) {
            g_ptr_array_add(args, (char *)words[i]);
        }
    }
    if (to_stdout(f)) {
        return cli_traces_run_remote(&f->traces, args, STDOUT_FILENO);
    }
    fd = open(f->begun, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        return failed(f->begun);
    }
    code = cli_traces_run_remote(&f->traces, args, fd);
    return close(fd) < 0 ? failed(f->begun) : code;
}

/* Decodes what was written.  It may only be incomplete if @code says so. */
static int verify(struct fetch *f, int code)
{
    uint64_t records;
    int found = cli_verify_file(f->begun, &records);

    if (found == CLI_FAILED || (found == CLI_DAMAGED && code == CLI_OK) ||
        (f->records && records != f->records)) {
        cli_error("%s: the copy is incomplete; try again",
                  f->output);
        return CLI_FAILED;
    }
    f->records = records;
    return code;
}

/* Gives the file its name. */
static bool finish(const struct fetch *f)
{
    int ret = renameat2(AT_FDCWD, f->begun, AT_FDCWD, f->output,
                        f->force ? 0 : RENAME_NOREPLACE);

    if (ret < 0 && errno == EINVAL && access(f->output, F_OK) < 0) {
        /* A file system without that */
        ret = rename(f->begun, f->output);
    }
    if (ret < 0) {
        failed(f->output);
    }
    return !ret;
}

static int print(const struct fetch *f, int code)
{
    if (f->json) {
        cli_print_json(btrail_json_new(
            "s:output", f->output, "S:guest", f->traces.name,
            "S:trace", f->trace, "U:records", f->records,
            "b:complete", code == CLI_OK, NULL));
    } else {
        cli_printf("%s: %" PRIu64 " records, %s\n", f->output, f->records,
                   code ? "incomplete" : "complete");
    }
    return fflush(stdout) ? CLI_FAILED : code;
}

static int fetch(struct fetch *f)
{
    int code;

    if (!to_stdout(f) && !f->force && !access(f->output, F_OK)) {
        cli_error("%s: the file exists; use --force to replace it, or "
                  "--output", f->output);
        return CLI_FAILED;
    }
    if (to_stdout(f) && isatty(STDOUT_FILENO)) {
        cli_error("a trace is not written to a terminal: name a file, or a pipe");
        return CLI_FAILED;
    }
    f->begun = g_strdup_printf("%s.fetching-%d", f->output, (int)getpid());
    code = cli_traces_remote(&f->traces) ? copy_remote(f) : copy_here(f);
    if (to_stdout(f)) {
        return code;
    }
    if (code != CLI_FAILED && code != CLI_USAGE) {
        code = verify(f, code);
        if (code != CLI_FAILED && finish(f)) {
            return print(f, code);
        }
    }
    unlink(f->begun);
    return CLI_FAILED;
}

/* x.btrail of dir/x, and GUEST.btrail if no trace is named */
static char *default_output(const struct fetch *f)
{
    g_autofree char *base = NULL;
    const char *name = f->trace ? f->trace : f->traces.name;

    if (!name) {
        return g_strdup("trace.btrail");
    }
    base = g_path_get_basename(name);
    return g_str_has_suffix(base, ".btrail") ? g_steal_pointer(&base) :
           g_strconcat(base, ".btrail", NULL);
}

int cmd_fetch(int argc, char **argv)
{
    struct fetch f = { 0 };
    const GOptionEntry entries[] = {
        CLI_TRACES_ENTRIES(&f.traces),
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &f.output,
          "output file, or - (default: the name of the trace or of the guest)",
          "FILE" },
        { "force", 'f', 0, G_OPTION_ARG_NONE, &f.force,
          "replace the file if it exists", NULL },
        { "json", 0, 0, G_OPTION_ARG_NONE, &f.json, "print JSON", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, CLI_ANY, "[GUEST] [TRACE]",
                  "Bring a trace of a guest into a file.")) {
        /* With a monitor there is no GUEST. */
        int guest = f.traces.guest.qmp ? 0 : 1;

        if (argc < 1 + guest || argc > 2 + guest) {
            cli_error("%s; see %s --help", argc < 1 + guest ?
                      "missing GUEST" : "too many arguments",
                      g_get_prgname());
        } else if (cli_traces_check(&f.traces, guest ? argv[1] : NULL)) {
            f.trace = g_strdup(argv[1 + guest]);
            if (!f.output) {
                f.output = default_output(&f);
            }
            code = fetch(&f);
        }
    }
    cli_traces_clear(&f.traces);
    g_free(f.trace);
    g_free(f.output);
    g_free(f.begun);
    return code;
}
