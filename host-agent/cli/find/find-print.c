/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail find: prints moments, with call stacks
 */

#include <inttypes.h>
#include <string.h>

#include "cli/find/find.h"
#include "find/guest-time.h"
#include "util/json.h"

/**
 * struct find_printer
 * @marks:   NULL if they cannot be read
 * @order:   of the moments' times
 * @counted: records have instruction counts, so times are the guest's
 */
struct find_printer {
    struct find_options *o;
    struct backtraces *stacks;
    struct marks *marks;
    struct clock_order *order;
    bool counted;
    uint64_t tsc_hz;
};

struct find_printer *find_printer_new(struct find_options *o)
{
    struct find_printer *p = g_new0(struct find_printer, 1);

    p->o = o;
    p->counted = btrail_json_is_true(o->in.trace.meta, "icount");
    p->tsc_hz = guest_time_hz(o->in.trace.trace);
    p->marks = marks_new(o->in.trace.trace, o->in.names, NULL);
    p->order = clock_order_new(o->in.trace.trace, o->in.trace.tick);
    if (o->stack) {
        p->stacks = backtraces_new(o->in.trace.trace, o->in.names);
    }
    if (!o->json) {
        cli_printf("#          Moment  %14s  %s%-20s  %s\n",
                   p->counted ? "Guest time (s)" : "Time (s)",
                   p->counted ? "  Instructions  " : "", "Task", "What");
    }
    return p;
}

void find_printer_free(struct find_printer *p)
{
    if (p) {
        backtraces_free(p->stacks);
        marks_free(p->marks);
        clock_order_free(p->order);
        g_free(p);
    }
}

/* The task that made the record */
static const struct process *process_of(const struct find_printer *p,
                                        const struct find_moment *found)
{
    const struct btrail_batch b = visit_batch(&found->visit);
    struct btrail_batch part = { .count = 0 };
    struct task task;

    symbolizer_part(p->o->in.names, found->visit.at.vcpu, &b, &part, &task);
    return task.process;
}

/* The moment of the clock that a time is written as in a place; "-" if
 * unknown */
static const char *format_time(const struct find_printer *p,
                               const struct moment *at,
                               char buf[CLI_TIME_SIZE])
{
    if (p->counted) {
        return cli_format_ns(guest_time_ns(at->time.tsc, p->tsc_hz), buf);
    }
    return cli_format_time(&p->o->in.trace, at->time.host ?
                           clock_order_time(p->order, at) : 0, buf);
}

static const char *task_name(const struct btrail_task *task, char *buf,
                             size_t size)
{
    if (!task->known) {
        return "?";
    }
    g_snprintf(buf, size, task->tid == task->pid ? "%s %u" : "%s %u/%u",
               task->name, task->pid, task->tid);
    return buf;
}

static bool is_wake(const struct find_printer *p)
{
    return p->o->what.kind == FIND_EVENT_WAKE;
}

/* Who is woken: as in task_name(), as far as that is known */
static const char *woken_name(const struct find_moment *found, char *buf,
                              size_t size)
{
    const struct btrail_wake *w = &found->woken;
    struct btrail_task task = {
        .known = w->known, .tid = w->tid, .pid = w->pid,
    };

    g_strlcpy(task.name, *found->name ? found->name : "?", sizeof(task.name));
    return task_name(&task, buf, size);
}

/* The place of the record in the trace */
static struct symbolizer_where where_of(const struct find_moment *found)
{
    const struct btrail_batch b = visit_batch(&found->visit);

    return symbolizer_at(found->visit.at.vcpu, &b, 0);
}

static const char *name_at(const struct find_printer *p,
                           const struct find_moment *found,
                           const struct process *process, uint64_t address,
                           char buf[NAMES_SIZE])
{
    const struct symbolizer_where where = where_of(found);
    struct place place;

    symbolizer_place(p->o->in.names, process, &where, address, &place);
    return names_text(&place, address, buf);
}

static bool find_mark(const struct find_printer *p,
                      const struct find_moment *found,
                      struct marks_found *mark)
{
    const struct btrail_batch b = visit_batch(&found->visit);

    return found->has_record && !found->switches && p->marks &&
           marks_read(p->marks, found->visit.at.vcpu, &b, mark);
}

/* Why a task leaves its vCPU, if that is known */
static const char *left_text(const struct find_moment *found)
{
    return !found->left.known ? "" : found->left.runnable ? ", preempted" :
           found->left.dead ? ", dead" : ", blocked";
}

static void put_what(const struct find_printer *p,
                     const struct find_moment *found,
                     const struct process *process)
{
    const struct visit *v = &found->visit;
    char from[NAMES_SIZE], to[NAMES_SIZE], at[NAMES_SIZE];
    char text[MARKS_TEXT];
    struct marks_found mark;

    if (is_wake(p)) {
        cli_printf("wakes %s%s\n", woken_name(found, to, sizeof(to)),
                   found->woken.is_new ? ", which is new" : "");
        return;
    }
    if (!found->has_record || found->switches) {
        cli_printf("%s -> %s%s\n",
                   task_name(&found->from, from, sizeof(from)),
                   task_name(&v->at.task, to, sizeof(to)), left_text(found));
        return;
    }
    name_at(p, found, process, v->record.from, from);
    name_at(p, found, process, v->record.to, to);
    if (find_mark(p, found, &mark)) {
        cli_printf("mark %s, ", marks_text(&mark, text));
    }
    if (v->address && v->address != v->record.to) {
        cli_printf("%s, in the block at %s, from %s\n",
                   name_at(p, found, process, v->address, at), to, from);
    } else {
        cli_printf("%s, from %s\n", to, from);
    }
}

/* The address that a call stack has for a function: in it, where it has got
 * to */
static uint64_t address_of(const struct find_moment *found,
                           const struct stack_call *call)
{
    return call->from ? call->from : found->visit.address ?:
           found->visit.record.to;
}

static void put_stack(const struct find_printer *p,
                      const struct backtrace *stack,
                      const struct find_moment *found)
{
    char name[NAMES_SIZE];

    for (unsigned i = 0; i < stack->calls->len; i++) {
        const struct stack_call *c = &g_array_index(stack->calls,
                                                    struct stack_call, i);

        if (i == p->o->depth) {
            cli_printf("%20s... %u more; see --depth\n", "",
                       stack->calls->len - i);
            return;
        }
        cli_printf("%20s%s%s\n", "",
                   name_at(p, found, stack->process, address_of(found, c),
                           name),
                   c->entry ? ", interrupted, or in a system call" : "");
    }
    if (!stack->whole && stack->since) {
        cli_printf("%20s... callers from before %u:%" PRIu64
                   " are not known\n", "", found->visit.at.vcpu, stack->since);
    } else if (!stack->whole) {
        cli_printf("%20s... the trace begins within these calls\n", "");
    }
}

static void put_text(const struct find_printer *p,
                     const struct find_moment *found,
                     const struct process *process,
                     const struct backtrace *stack)
{
    const struct moment *at = &found->visit.at;
    char time[CLI_TIME_SIZE], name[256];
    g_autofree char *moment = g_strdup_printf("%u:%" PRIu64, at->vcpu,
                                              at->index);

    cli_printf("%17s  %14s  ", moment, format_time(p, at, time));
    if (p->counted && at->icount != BTRAIL_NO_ICOUNT) {
        cli_printf("%14" PRIu64 "  ", at->icount);
    } else if (p->counted) {
        cli_printf("%14s  ", "-");
    }
    cli_printf("%-20s  ", at->task.known ?
               task_name(&at->task, name, sizeof(name)) :
               call_tree_name_of(process, NULL, name, sizeof(name)));
    put_what(p, found, process);
    if (stack) {
        put_stack(p, stack, found);
    }
}

static void put_place(JsonObject *o, const char *member,
                      const struct find_printer *p,
                      const struct find_moment *found,
                      const struct process *process, uint64_t address)
{
    const struct symbolizer_where where = where_of(found);
    struct place place;
    JsonObject *json;

    symbolizer_place(p->o->in.names, process, &where, address, &place);
    json = btrail_json_new("X:address", address, NULL);
    if (place.function->known) {
        btrail_json_add(json, "s:sym", place.function->name, "U:offset",
                        place.offset, NULL);
    }
    btrail_json_add(json, "s:dso", place.function->module->name, NULL);
    json_object_set_object_member(o, member, json);
}

static void put_mark_json(JsonObject *o, const struct marks_found *f)
{
    JsonObject *json = btrail_json_new("s:name", f->mark.name, NULL);

    if (f->known) {
        btrail_json_add(json, "X:value", f->value, NULL);
    } else if (f->mark.has_value) {
        json_object_set_null_member(json, "value");
    }
    json_object_set_object_member(o, "mark", json);
}

static void put_task(JsonObject *o, const struct btrail_task *task)
{
    if (task->known) {
        btrail_json_add(o, "s:comm", task->name, "u:pid", task->pid, "u:tid",
                        task->tid, NULL);
    }
}

static JsonObject *woken_json(const struct find_moment *found)
{
    const struct btrail_wake *w = &found->woken;
    JsonObject *o = btrail_json_new("b:new", w->is_new, NULL);

    if (w->known) {
        btrail_json_add(o, "S:comm", *found->name ? found->name : NULL,
                        "u:pid", w->pid, "u:tid", w->tid, NULL);
    }
    return o;
}

static JsonArray *stack_json(const struct find_printer *p,
                             const struct backtrace *stack,
                             const struct find_moment *found)
{
    const struct symbolizer_where where = where_of(found);
    JsonArray *array = json_array_new();

    for (unsigned i = 0; i < MIN(stack->calls->len, p->o->depth); i++) {
        const struct stack_call *c = &g_array_index(stack->calls,
                                                    struct stack_call, i);
        uint64_t address = address_of(found, c);
        JsonObject *o = json_object_new();
        struct place place;

        symbolizer_place(p->o->in.names, stack->process, &where, address,
                         &place);
        btrail_json_add(o, "X:address", address, "s:sym", c->function->name,
                        "s:dso", c->function->module->name, "b:entry",
                        c->entry, NULL);
        json_array_add_object_element(array, o);
    }
    return array;
}

static void put_json(const struct find_printer *p,
                     const struct find_moment *found,
                     const struct process *process,
                     const struct backtrace *stack)
{
    const struct visit *v = &found->visit;
    char time[CLI_TIME_SIZE];
    struct marks_found mark;
    JsonObject *o = btrail_json_new("u:vcpu", v->at.vcpu, "U:index",
                                    v->at.index, NULL);

    if (strcmp(format_time(p, &v->at, time), "-")) {
        btrail_json_add(o, "d:time", g_ascii_strtod(time, NULL), NULL);
    }
    if (v->at.icount != BTRAIL_NO_ICOUNT) {
        btrail_json_add(o, "U:icount", v->at.icount, "b:exact", v->at.exact,
                        NULL);
    }
    put_task(o, &v->at.task);
    if (!v->at.task.known) {
        btrail_json_add(o, "s:comm", process->comm, NULL);
    }
    if (is_wake(p)) {
        json_object_set_object_member(o, "woken", woken_json(found));
    } else if (!found->has_record || found->switches) {
        JsonObject *from = json_object_new();

        put_task(from, &found->from);
        if (found->left.known) {
            btrail_json_add(from, "s:left", left_text(found) + strlen(", "),
                            NULL);
        }
        json_object_set_object_member(o, "switched_from", from);
    } else {
        put_place(o, "from", p, found, process, v->record.from);
        put_place(o, "to", p, found, process, v->record.to);
        if (v->address) {
            put_place(o, "at", p, found, process, v->address);
        }
    }
    if (find_mark(p, found, &mark)) {
        put_mark_json(o, &mark);
    }
    if (stack) {
        btrail_json_add(o, "a:stack", stack_json(p, stack, found), "b:whole",
                        stack->whole, NULL);
    }
    cli_print_json_line(o);
}

void find_print(struct find_printer *p, const struct find_moment *found)
{
    const struct process *process = process_of(p, found);
    const struct backtrace *stack = NULL;

    if (p->stacks && found->has_record &&
        !backtraces_at(p->stacks, &found->visit.at, &stack)) {
        stack = NULL;
    }
    if (p->o->json) {
        put_json(p, found, process, stack);
    } else {
        put_text(p, found, process, stack);
    }
}
