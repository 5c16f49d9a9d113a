import com.sun.tools.attach.VirtualMachine;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints the value of a metric of a running broker or controller: `java Metric.java PID OBJECT_NAME`. */
public class Metric {
  public static void main(String[] arguments) throws Exception {
    VirtualMachine machine = VirtualMachine.attach(arguments[0]);
    try {
      JMXServiceURL address = new JMXServiceURL(machine.startLocalManagementAgent());
      try (JMXConnector connector = JMXConnectorFactory.connect(address)) {
        System.out.println(connector.getMBeanServerConnection().getAttribute(new ObjectName(arguments[1]), "Value"));
      }
    } finally {
      machine.detach();
    }
  }
}
