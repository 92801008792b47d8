/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail diff: compares two traces of the same thing
 */

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/diff-print.h"
#include "find/record-reader.h"

bool diff_pair_differs(const struct diff_pair *pair)
{
    return pair->differences || pair->lost;
}

const struct diff_group *diff_first(const struct diff_pair *pair)
{
    return pair->groups->len ? pair->groups->pdata[0] : NULL;
}

const struct diff_group *diff_first_new(const struct diff_pair *pair)
{
    for (unsigned i = 0; i < pair->groups->len; i++) {
        const struct diff_group *g = pair->groups->pdata[i];

        if (g->fresh) {
            return g;
        }
    }
    return NULL;
}

GPtrArray *diff_only(const struct diff_command *c, unsigned side)
{
    const GPtrArray *all = c->result.tasks[side].all;
    GPtrArray *only = g_ptr_array_new();

    for (unsigned i = 0; i < all->len; i++) {
        struct diff_task *task = all->pdata[i];

        if (!task->other && diff_chooses(&c->options, task)) {
            g_ptr_array_add(only, task);
        }
    }
    return only;
}

static const char *name_at(const struct diff_function *f, uint64_t offset,
                           char buf[DIFF_NAME_SIZE])
{
    if (f->known) {
        g_snprintf(buf, DIFF_NAME_SIZE, "%.200s+0x%" PRIx64 " (%.200s)",
                   f->name, offset, f->module);
    } else if (strcmp(f->module, NAME_UNKNOWN)) {
        g_snprintf(buf, DIFF_NAME_SIZE, "0x%" PRIx64 " (%.200s)", offset,
                   f->module);
    } else {
        g_snprintf(buf, DIFF_NAME_SIZE, "0x%" PRIx64, offset);
    }
    return buf;
}

const char *diff_name_from(const struct diff_command *c, uint32_t edge,
                           char buf[DIFF_NAME_SIZE])
{
    const struct diff_edge *e = diff_edges_get(c->result.edges, edge);

    return e->kind == STACK_EDGE_EXIT ? "[kernel]" :
           name_at(e->from_fn, e->from, buf);
}

const char *diff_name_to(const struct diff_command *c, uint32_t edge,
                         char buf[DIFF_NAME_SIZE])
{
    const struct diff_edge *e = diff_edges_get(c->result.edges, edge);

    return e->pseudo ? btrail_pseudo_name(e->pseudo) :
           name_at(e->to_fn, e->to, buf);
}

const char *diff_task_name(const struct diff_task *task,
                           char buf[DIFF_NAME_SIZE])
{
    size_t n;

    g_snprintf(buf, DIFF_NAME_SIZE, "%.300s", task->comm);
    n = strlen(buf);
    if (task->pid >= 0 && task->tid) {
        g_snprintf(buf + n, DIFF_NAME_SIZE - n, " %" PRId64, task->pid);
        n = strlen(buf);
    }
    if (task->tid > 0 && task->tid != task->pid) {
        g_snprintf(buf + n, DIFF_NAME_SIZE - n, "/%" PRId64, task->tid);
    }
    return buf;
}

/* Finds the source line of a record's `from`. */
static void find_line(const struct analysis *in, const struct process *process,
                      const struct visit *visit, struct diff_place *place)
{
    const struct btrail_batch b = visit_batch(visit);
    const struct symbolizer_where where = symbolizer_at(visit->at.vcpu, &b, 0);
    struct place at;
    const char *file;
    unsigned line;

    symbolizer_place(in->names, process->owner, &where, visit->record.from,
                     &at);
    if (symbolizer_line(in->names, &at, &file, &line)) {
        g_snprintf(place->buf, DIFF_LINE_SIZE, "%.400s:%u", file, line);
        place->line = place->buf;
    }
}

void diff_place_find(const struct diff_command *c, const struct diff_pair *pair,
                     const struct diff_group *g, unsigned side,
                     struct diff_place *place)
{
    const struct diff_side *s = &g->side[side];
    const struct analysis *in = &c->in[side];
    struct visit visit;

    memset(place, 0, sizeof(*place));
    place->known = s->placed && !record_read(in->trace.trace, s->vcpu, s->index,
                                             &visit);
    if (place->known) {
        place->time = visit.at.time.host;
        find_line(in, pair->task[side]->process, &visit, place);
    }
}

static void on_progress(void *opaque, uint64_t done, uint64_t all)
{
    (void)opaque;
    if (isatty(STDERR_FILENO)) {
        cli_fprintf(stderr, "\r%3u%% of %" PRIu64 " M records",
                    (unsigned)(all ? MIN(done * 100 / all, 100) : 100),
                    all / 1000000);
        fflush(stderr);
    }
}

static void clear_progress(void)
{
    if (isatty(STDERR_FILENO)) {
        cli_fprintf(stderr, "\r%40s\r", "");
    }
}

/* Has --process chosen anything?  False after an error message. */
static bool check_chosen(const struct diff_command *c)
{
    g_autoptr(GPtrArray) a = diff_only(c, 0), b = diff_only(c, 1);

    if (c->process && !c->result.pairs->len && !a->len && !b->len) {
        cli_error("--process: no process of either trace is called '%s' or "
                  "has this number", c->process);
        return false;
    }
    return true;
}

static int verdict(const struct diff_command *c)
{
    int code = DIFF_CLI_SAME;

    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        g_autoptr(GPtrArray) only = diff_only(c, side);
        int damaged = cli_trace_verdict(&c->in[side].trace,
                                        c->result.damage[side]);

        code = code == DIFF_CLI_DIFFERENT || only->len ? DIFF_CLI_DIFFERENT :
               damaged ? damaged : code;
    }
    return c->result.differs ? DIFF_CLI_DIFFERENT : code;
}

static int compare(struct diff_command *c)
{
    unsigned side;
    int ret, code = DIFF_CLI_TROUBLE;

    for (side = 0; side < DIFF_SIDES; side++) {
        c->options.input[side] = (struct diff_input) {
            .trace = c->in[side].trace.trace, .names = c->in[side].names,
            .window = c->in[side].window,
        };
    }
    c->options.user = c->user || !c->kernel;
    c->options.kernel = c->kernel || !c->user;
    c->options.process = c->process;
    c->options.progress = on_progress;
    ret = diff_run(&c->result, &c->options, &side);
    clear_progress();
    if (ret) {
        analysis_failed(&c->in[side], ret);
    } else if (check_chosen(c)) {
        (c->json ? diff_print_json : diff_print)(c);
        code = verdict(c);
    }
    diff_clear(&c->result);
    return code;
}

/* Options that say where names are hold for both traces. */
static void copy_options(const struct analysis *from, struct analysis *to)
{
    to->map = g_strdup(from->map);
    to->vmlinux = g_strdup(from->vmlinux);
    to->sysroots = g_strdupv(from->sysroots);
    to->debug_dirs = g_strdupv(from->debug_dirs);
    to->images = g_strdupv(from->images);
    to->fetch = from->fetch;
    to->mangled = from->mangled;
    to->time_text = g_strdup(from->time_text);
}

int cmd_diff(int argc, char **argv)
{
    struct diff_command c = { .top = 10 };
    int code = DIFF_CLI_TROUBLE;
    const GOptionEntry entries[] = {
        { "process", 0, 0, G_OPTION_ARG_STRING, &c.process,
          "only this process", "NAME|PID" },
        { "user", 0, 0, G_OPTION_ARG_NONE, &c.user,
          "only what programs do in user mode", NULL },
        { "kernel", 0, 0, G_OPTION_ARG_NONE, &c.kernel,
          "only what the kernel does for them", NULL },
        { "top", 0, 0, G_OPTION_ARG_INT, &c.top,
          "this many rows of each list (default: 10; 0: all)", "N" },
        { "time", 0, 0, G_OPTION_ARG_STRING, &c.in[0].time_text,
          "of both, only from second A after the start to before B",
          "A..B" },
        ANALYSIS_NAME_ENTRIES(&c.in[0]),
        { "json", 0, 0, G_OPTION_ARG_NONE, &c.json, "print JSON", NULL },
        { NULL }
    };

    if (!cli_parse(&argc, &argv, entries, 2, "FILE FILE",
                   "Find where two runs of the same thing differ.")) {
        code = DIFF_CLI_TROUBLE;
    } else if (c.top < 0) {
        cli_error("--top: %d is below 0", c.top);
    } else {
        char *const paths[DIFF_SIDES][2] = {
            { argv[1], NULL }, { argv[2], NULL },
        };

        copy_options(&c.in[0], &c.in[1]);
        if (analysis_parse(&c.in[0]) && analysis_parse(&c.in[1]) &&
            analysis_open(&c.in[0], paths[0], true) &&
            analysis_open(&c.in[1], paths[1], true)) {
            code = compare(&c);
        }
    }
    analysis_clear(&c.in[0]);
    analysis_clear(&c.in[1]);
    g_free(c.process);
    return code;
}
