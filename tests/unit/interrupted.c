/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which interrupt a vCPU is in, by call stacks as kernels have them
 */

#include "find/interrupted.h"

#define MOST    16

static struct module kernel = { .name = "[kernel.kallsyms]", .kernel = true };
static struct module program = { .name = "sh" };

/*
 * Checks a stack: names, the one that was called last first, each with a * if
 * it has called the one before by an entry, and with a ' if it is a program's.
 */
static void check(const char *text, const char *wanted)
{
    g_auto(GStrv) names = g_strsplit(text, " ", -1);
    struct function functions[MOST];
    struct stack_call calls[MOST];
    g_autofree char *found = NULL;
    unsigned n;

    for (n = 0; names[n]; n++) {
        char *name = names[n];

        g_assert_cmpuint(n, <, MOST);
        calls[n] = (struct stack_call) {
            .function = &functions[n], .entry = *name == '*',
        };
        name += *name == '*';
        functions[n] = (struct function) {
            .known = true, .module = *name == '\'' ? &program : &kernel,
        };
        name += *name == '\'';
        functions[n].name = functions[n].symbol = name;
    }
    found = interrupted_by(calls, n);
    g_assert_cmpstr(found, ==, wanted);
}

static void test_interrupts(void)
{
    check("try_to_wake_up hrtimer_wakeup __hrtimer_run_queues "
          "hrtimer_interrupt __sysvec_apic_timer_interrupt "
          "sysvec_apic_timer_interrupt asm_sysvec_apic_timer_interrupt *'main",
          "apic_timer_interrupt: hrtimer_wakeup");
    check("try_to_wake_up vring_interrupt __handle_irq_event_percpu "
          "handle_irq_event handle_edge_irq __common_interrupt "
          "common_interrupt asm_common_interrupt *default_idle do_idle",
          "common_interrupt: vring_interrupt");
    /* Work that an interrupt has left for its end */
    check("try_to_wake_up run_timer_softirq handle_softirqs __irq_exit_rcu "
          "sysvec_apic_timer_interrupt asm_sysvec_apic_timer_interrupt "
          "*vfs_read *'read 'main",
          "apic_timer_interrupt: run_timer_softirq");
    /* What is in it says nothing. */
    check("try_to_wake_up handle_softirqs __irq_exit_rcu "
          "sysvec_apic_timer_interrupt asm_sysvec_apic_timer_interrupt "
          "*do_idle",
          "apic_timer_interrupt");
    /* Linux before 5.8 */
    check("try_to_wake_up ata_bmdma_interrupt __handle_irq_event_percpu "
          "handle_irq do_IRQ ret_from_intr *'main",
          "common_interrupt: ata_bmdma_interrupt");
}

static void test_tasks(void)
{
    check("", NULL);
    check("try_to_wake_up pipe_write vfs_write __x64_sys_write do_syscall_64 "
          "entry_SYSCALL_64_after_hwframe *'write 'main", NULL);
    /* What was interrupted is not in the interrupt, nor what a task has called
     * when that was over. */
    check("try_to_wake_up handle_mm_fault exc_page_fault asm_exc_page_fault "
          "*copy_user sysvec_apic_timer_interrupt", NULL);
    check("try_to_wake_up process_one_work worker_thread kthread "
          "ret_from_fork_asm", NULL);
    /* A program's function may have any name. */
    check("'sysvec_apic_timer_interrupt 'main", NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/interrupted/interrupts", test_interrupts);
    g_test_add_func("/interrupted/tasks", test_tasks);
    return g_test_run();
}
